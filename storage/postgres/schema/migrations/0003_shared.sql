-- Named values of the whole database. Each change raises version by one.
CREATE TABLE IF NOT EXISTS colophon_shared (
    name text NOT NULL PRIMARY KEY,
    version bigint NOT NULL,
    value bytea NOT NULL
);
