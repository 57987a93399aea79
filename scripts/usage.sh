# Sourced first by a script whose opening comment says how it is called: usage prints that comment; --help or -h as the first
# argument prints it and ends the script.
usage() { sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"; }
case ${1:-} in -h | --help) usage; exit 0 ;; esac
