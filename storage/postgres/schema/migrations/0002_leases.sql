-- The server that holds a ledger. writer is the one in the row of the ledger's head, whose
-- epoch is the fence; it is empty while the lease is offered to a server. expires is judged by
-- this database's clock.
CREATE TABLE IF NOT EXISTS colophon_leases (
    ledger bigint NOT NULL PRIMARY KEY,
    server text NOT NULL,
    writer text NOT NULL,
    address text NOT NULL,
    expires timestamptz NOT NULL
);

-- The servers on this database. ledgers are the names of those that a server has the signing
-- keys of.
CREATE TABLE IF NOT EXISTS colophon_servers (
    id text NOT NULL PRIMARY KEY,
    address text NOT NULL,
    ledgers text[] NOT NULL,
    seen timestamptz NOT NULL
);
