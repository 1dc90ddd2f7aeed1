#!/bin/bash
# deb_in_root.sh OLD NEW: installs, upgrades, removes and purges a package of two revisions, in a root that nothing else
# uses, as root; a server runs meanwhile.  Prints lines 'ok - TEXT' and 'not ok - TEXT', and last 'end'.
set -u
old=$1 new=$2
package=$(dpkg-deb -f "$new" Package)
major=${package#postgresql-}
major=${major%%-*}
data=/var/lib/postgresql/$major/main
bin=/usr/lib/postgresql/$major/bin
export LC_ALL=C.UTF-8

# claim TEXT, after a command: did it succeed?
claim() { if [ $? = 0 ]; then echo "ok - $1"; else echo "not ok - $1"; fi; }
sql() { su postgres -c "psql -XAtq -v ON_ERROR_STOP=1 -d postgres" <<<"$1"; }
wait_for() { for _ in $(seq 300); do [ "$(sql "$1")" = "$2" ] && return; sleep 0.2; done; return 1; }
server() { pg_ctlcluster "$major" main "$1" && { [ "$1" = stop ] || wait_for 'select 1' 1; }; }
postmaster() { head -1 "$data/postmaster.pid"; }
maps_library() { grep -E "hjoin_gpu\.so${1:-}\$" "/proc/$(postmaster)/maps"; }
files_of_it() { find / -xdev \( -path "$PWD" -o -path /var/lib/postgresql -o -path /var/cache/apt \) -prune -o \( -name '*hjoin_gpu*' -o -name '*hjoin-gpu*' \) -print; }
# shows PATTERN: is it in the input, which is taken as one line, and logged?
shows() { local text; text=$(cat); printf '%s\n' "$text" >&2; tr '\n' ' ' <<<"$text" | grep -q "$1"; }
apt() { apt-get -y -q -o Dpkg::Use-Pty=0 --no-install-recommends "$@"; }
installed() { dpkg-query -W -f '${Version}' "$package"; }

query='select count(*), sum(build.id::bigint * probe.id) from build join probe using (k)'
ours='set hjoin_gpu.force = on; set hjoin_gpu.in_backend_rows = 0; set max_parallel_workers_per_gather = 0;'
is_right() { [ -n "$answer" ] && [ "$(sql "$ours $query")" = "$answer" ]; }
in_device_process() {
	wait_for "select value from hjoin_gpu_stat where name = 'available'" 1 || return
	sql "$ours explain (analyze, costs off) $query" | shows 'Custom Scan (GpuHashJoin).*Joined In: device process' && is_right
}

apt update
[ -z "$(files_of_it)" ] && [ ! -e "$bin/postgres" ]
claim "before, there is no server and no file of the package"
apt install "$old" && [ -x "$bin/postgres" ] && [ "$(installed)" = "$(dpkg-deb -f "$old" Version)" ]
claim "apt installs it, and the server with it"
! command -v cc && ! command -v gcc && [ ! -e /usr/include/postgresql ]
claim "there is no compiler and no header of a server"
[ "$(files_of_it | grep -c -e "$bin/hjoin_gpu_device\$" -e '/hjoin_gpu\.so$' -e '/hjoin_gpu\.control$' -e '/hjoin_gpu--.*\.sql$')" -ge 4 ] && [ -s "/usr/share/doc/$package/copyright" ]
claim "library, program, scripts and papers are where they belong"
"$bin/hjoin_gpu_device" --list | shows 'built without CUDA' && without=yes || without=
if dpkg-query -W -f '${Description}' "$package" | grep 'Kernels for NVIDIA GPUs are in it'; then [ -z "$without" ]; else [ -n "$without" ]; fi
claim "the description tells whether kernels for NVIDIA GPUs are in it"

pg_conftool "$major" main set listen_addresses '' && pg_conftool "$major" main set shared_preload_libraries hjoin_gpu && server start
claim "the server starts with the library"
sql 'create extension hjoin_gpu;
	create table build as select g as id, g % 50000 as k from generate_series(1, 100000) g;
	create table probe as select g as id, g % 100000 as k from generate_series(1, 400000) g;
	analyze build, probe'
answer=$(sql "set hjoin_gpu.enabled = off; $query")
[ "${answer%%|*}" = 400000 ] && ! sql "set hjoin_gpu.enabled = off; explain $query" | grep -q Gpu && in_device_process
claim "a join runs in the device process, with core's rows"

pid=$(postmaster)
apt install "$new" && [ "$(installed)" = "$(dpkg-deb -f "$new" Version)" ] && dpkg --compare-versions "$(dpkg-deb -f "$old" Version)" lt "$(installed)"
claim "apt upgrades it"
[ "$(postmaster)" = "$pid" ] && maps_library ' \(deleted\)' && is_right
claim "meanwhile the server ran on, and joins with the library that it has loaded"
device=$(sql 'select pid from hjoin_gpu_devices limit 1')
kill -KILL "$device" && wait_for "select count(*) > 0 from hjoin_gpu_devices where pid <> $device" t && in_device_process
claim "so it does with a device process of the new package"
server restart && maps_library && ! maps_library ' \(deleted\)' && in_device_process
claim "restarted, it joins with the new library"
sql 'alter extension hjoin_gpu update' && [ "$(sql "select e.extversion = v.default_version from pg_extension e join pg_available_extensions v on v.name = e.extname where e.extname = 'hjoin_gpu'")" = t ]
claim "the extension is updated"

device=$(sql 'select pid from hjoin_gpu_devices limit 1')
apt remove "$package" && [ ! -e "$bin/hjoin_gpu_device" ] && [ -x "$bin/postgres" ] && is_right
claim "removed below a running server it joins on"
kill -KILL "$device" && is_right
claim "also without its device process"
sql 'drop extension hjoin_gpu' && pg_conftool "$major" main remove shared_preload_libraries && server restart && [ "$(sql "$query")" = "$answer" ] && ! maps_library && ! maps_library ' \(deleted\)'
claim "dropped and out of the configuration, the server is as before"
! files_of_it | shows hjoin
claim "no file of it is left"
apt install "$new" && files_of_it | shows hjoin && apt purge "$package" && ! dpkg-query -W "$package" 2>/dev/null && ! files_of_it | shows hjoin
claim "nor when it is installed again and purged"
server stop
echo end
