#!/bin/sh
# Runs once, after the data folder of the first primary has been made and before the primary serves
# others. From its next start on, each commit waits until the standby has it too.
set -eu
psql --no-psqlrc -v ON_ERROR_STOP=1 -v password="$POSTGRES_PASSWORD" -U "$POSTGRES_USER" -d "$POSTGRES_DB" <<'SQL'
CREATE ROLE standby WITH REPLICATION LOGIN PASSWORD :'password';
-- Must be last. It takes effect at the next start, when the standby can connect.
ALTER SYSTEM SET synchronous_standby_names = 'standby';
SQL
echo 'host replication standby samenet scram-sha-256' >>"$PGDATA/pg_hba.conf"
