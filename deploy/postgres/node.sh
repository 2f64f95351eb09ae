#!/bin/sh
# Runs PostgreSQL on the node $NODE, and passes it all arguments. The node $PRIMARY is the primary. The
# other node is its standby: it first copies the primary, and repeats a copy that was interrupted.
# $PGPASSWORD is the password of the role that primary.sh makes.
set -eu
if [ "$NODE" = "$PRIMARY" ]; then
	exec docker-entrypoint.sh "$@"
fi
if [ ! -d "$PGDATA" ]; then
	copy=$PGDATA.copying
	from="host=$PRIMARY user=standby application_name=standby"
	rm -rf "$copy"
	until pg_receivewal --dbname="$from" --create-slot --if-not-exists --slot=standby &&
		pg_basebackup --dbname="$from" --pgdata="$copy" --slot=standby --checkpoint=fast --write-recovery-conf; do
		rm -rf "$copy"
		sleep 1
	done
	mv "$copy" "$PGDATA"
elif [ ! -e "$PGDATA/standby.signal" ]; then
	echo "$NODE has the data of a primary, but POSTGRES_PRIMARY is $PRIMARY. If $NODE was promoted, set POSTGRES_PRIMARY=$NODE. If it is the old primary, remove its volume." >&2
	exit 1
fi
exec postgres "$@"
