#!/bin/sh
# Copies the primary at $PRIMARY once, and then runs a standby that follows it. $PGPASSWORD is
# the password of the role that primary.sh made. An interrupted copy is repeated.
set -eu
data=$PGDATA/standby
if [ ! -d "$data" ]; then
	rm -rf "$PGDATA/copying"
	until pg_basebackup --pgdata="$PGDATA/copying" --slot=standby --checkpoint=fast --write-recovery-conf \
		--dbname="host=$PRIMARY user=standby application_name=standby"; do
		rm -rf "$PGDATA/copying"
		sleep 1
	done
	mv "$PGDATA/copying" "$data"
fi
exec postgres -D "$data"
