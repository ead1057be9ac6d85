#!/bin/sh
# A program that monitor.Beside starts: it writes what it was given to $BESIDE_OUT when its standard input ends.
printf '%s\n' "$@" "${LD_BIND_NOW-lazy}" "$([ -e /dev/fd/3 ] && echo shared)" >"$BESIDE_OUT.part"
cat >>"$BESIDE_OUT.part"
mv "$BESIDE_OUT.part" "$BESIDE_OUT"
exit "$BESIDE_CODE"
