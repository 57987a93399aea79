# Sets cairn_cache: the folder that keeps what is fetched and built once, beside all build folders.
#
#   CAIRN_CACHE_DIR   names it, as a variable of CMake's or of the environment; else it is cairn in the user's cache folder
if(CAIRN_CACHE_DIR)
  set(cairn_cache "${CAIRN_CACHE_DIR}")
elseif(DEFINED ENV{CAIRN_CACHE_DIR})
  set(cairn_cache "$ENV{CAIRN_CACHE_DIR}")
elseif(DEFINED ENV{XDG_CACHE_HOME})
  set(cairn_cache "$ENV{XDG_CACHE_HOME}/cairn")
else()
  set(cairn_cache "$ENV{HOME}/.cache/cairn")
endif()
