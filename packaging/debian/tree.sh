# Sourced by scripts that work in a Debian tree of their own, with `root` being its folder.
#
#   make_tree SUITE PACKAGES    a minimal system in $root, if there is none; 1, and $why says why, if it cannot be made
#   leave_tree                  undoes what it has mounted
#   inside COMMAND ...          runs a command there
make_tree() {
  [ "$(id -u)" -eq 0 ] || { why="debootstrap and chroot take root"; return 1; }
  command -v debootstrap >/dev/null || { why="there is no debootstrap (scripts/install_packages package)"; return 1; }
  local mirror
  # shellcheck disable=SC2016
  mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 2>/dev/null | grep -m1 -E '/debian/?$' || true)
  [ -n "$mirror" ] || { why="this machine's apt has no Debian mirror"; return 1; }
  if [ ! -x "$root/usr/bin/apt-get" ]; then
    # A killed one leaves half a tree.
    rm -rf --one-file-system "$root" "$root.new"
    if ! debootstrap --variant=minbase --include="$2" "$1" "$root.new" "$mirror" >"$root.log" 2>&1; then
      why="debootstrap failed: $(tail -n 1 "$root.log")"
      rm -rf --one-file-system "$root.new"
      return 1
    fi
    mv -T "$root.new" "$root"
  fi
  cp /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
  mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
}
leave_tree() { ! mountpoint -q "$root/proc" || umount "$root/proc"; }
inside() {
  chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    ${http_proxy:+http_proxy="$http_proxy"} ${CAIRN_OPTIONS:+CAIRN_OPTIONS="$CAIRN_OPTIONS"} "$@" </dev/null
}
