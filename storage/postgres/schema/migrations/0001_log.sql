-- Every statement can run again: an engine may make each of them durable on its own, and a
-- start that is interrupted is repeated. Numbers of 64 bits without sign (seq, idx) are stored
-- as bigint with the same bits. Rows of entries, pieces of tiles, and claims are only inserted,
-- so they leave no dead rows behind; the head's row is the only one that each commit replaces.
-- A primary key begins with the column that is looked up: planners believe that few rows belong to
-- one ledger, and would read all of them.

CREATE TABLE IF NOT EXISTS colophon_ledgers (
    number bigint NOT NULL PRIMARY KEY,
    name text NOT NULL UNIQUE,
    origin text NOT NULL,
    created timestamptz NOT NULL,
    reject_mismatch boolean NOT NULL
);

-- writer and epoch are the fence: see the package's comment.
CREATE TABLE IF NOT EXISTS colophon_heads (
    ledger bigint NOT NULL PRIMARY KEY,
    epoch bigint NOT NULL,
    writer text NOT NULL,
    size bigint NOT NULL,
    tip bytea NOT NULL,
    time bigint NOT NULL,
    frozen boolean NOT NULL,
    checkpoint bytea NOT NULL
);

CREATE TABLE IF NOT EXISTS colophon_entries (
    ledger bigint NOT NULL,
    seq bigint NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (ledger, seq)
);

-- A tile is the concatenation of its pieces. stop is the number of hashes of the tile at the
-- end of the piece. A commit adds one piece, where replacing the tile would leave up to 8 KiB
-- of dead rows for each commit.
CREATE TABLE IF NOT EXISTS colophon_tiles (
    ledger bigint NOT NULL,
    level bigint NOT NULL,
    idx bigint NOT NULL,
    stop bigint NOT NULL,
    hashes bytea NOT NULL,
    PRIMARY KEY (ledger, level, idx, stop)
);

-- seq is the event that posted the content, NULL if that event is redacted and others need it.
CREATE TABLE IF NOT EXISTS colophon_contents (
    ledger bigint NOT NULL,
    digest bytea NOT NULL,
    seq bigint,
    bytes bytea NOT NULL,
    PRIMARY KEY (digest, ledger)
);

-- Events that need content that another event posted.
CREATE TABLE IF NOT EXISTS colophon_references (
    ledger bigint NOT NULL,
    digest bytea NOT NULL,
    seq bigint NOT NULL,
    PRIMARY KEY (digest, seq, ledger)
);

CREATE TABLE IF NOT EXISTS colophon_redactions (
    ledger bigint NOT NULL,
    seq bigint NOT NULL,
    redacted_by bigint NOT NULL,
    PRIMARY KEY (ledger, seq)
);

CREATE TABLE IF NOT EXISTS colophon_claims (
    ledger bigint NOT NULL,
    key bytea NOT NULL,
    record bytea NOT NULL,
    seq bigint NOT NULL,
    PRIMARY KEY (key, ledger)
);

CREATE TABLE IF NOT EXISTS colophon_settings (
    ledger bigint NOT NULL,
    name text NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (ledger, name)
);
