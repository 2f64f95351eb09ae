package main

import (
	"github.com/spf13/cobra"

	"colophon/internal/cli"
	"colophon/internal/server"
)

func newServe(c *cli.Console) *cobra.Command {
	flagged := server.Config{}.WithDefaults()
	var file string
	command := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Run the server until it gets a signal (SIGTERM, SIGINT). It then accepts no new
requests, finishes the current ones, and commits what it has accepted. A second signal
stops it at once, and no acknowledged record is lost.

The first start creates the data folder, a signing key (keys/default.key: keep a copy of
it) and the ledger "default", and prints what it created. serve refuses a folder that has
other files and no ledger. Instead of a flag, you can set an environment variable
(COLOPHON_LISTEN for --listen), or a setting of the same name in a YAML file (--config).

A token determines what its clients are allowed to do (colophon token create). The file
that --access-file names does this for tokens of OpenID Connect issuers and for client
certificates:
  oidc:
    - issuer: https://id.example.org
      audience: colophon
      rules:
        - {claim: groups, value: writers, ledgers: [default], scopes: [write, read]}
  mtls:
    - {subject: "CN=witness,O=Example", name: witness, ledgers: ["*"], scopes: [log]}
Without tokens and without such rules, the server requires no credentials and listens
only on loopback, unless you give --insecure.

--publish keeps a copy of every public log in a folder or in a bucket (S3, Google, Azure),
with the paths of the server. audit reads the copy without the server, and other tools
for tlog-tiles read it too. The server never changes entries that the copy already has, and
it does not write into the copy of another log. docs/publishing.md names the credentials.

With --archive, old entries of these logs leave the database once their copies are
verified, and are read from the bucket. See docs/servers.md.

--read-only serves without writing or signing. With --store it serves the ledgers of a
database that other servers write. With --from it follows a published copy of one
ledger, and serves what it has verified with the verifier key that --key gives. Writes
get 403. If the copy or the store does not extend what was served, the server shows the
last good state, and /readyz says so.

Exit codes: 0 the server was stopped, 1 the server or its storage failed, 2 bad flags or
configuration, 4 another process uses the data folder, 5 a ledger is damaged.`,
		Example: `  colophon serve --data ./data
  COLOPHON_LISTEN=127.0.0.1:9000 colophon serve --config colophon.yaml
  colophon serve --publish 's3://logs/copy?endpoint=https://s3.example.org&region=eu'
  colophon serve --read-only --data reader --from file:///srv/copy/v1/ledgers/default --key verifier.key`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			config, err := server.ResolveConfig(file, c.LookupEnv, command.Flags())
			if err != nil {
				return cli.ExitErrorf(cli.ExitUsage, "%w", err)
			}
			return server.Run(command.Context(), c, config, buildVersion())
		},
	}
	flagged.Bind(command.Flags())
	command.Flags().StringVar(&file, "config", c.EnvOr("COLOPHON_CONFIG", ""), "YAML `file` with settings that have the same names as these flags, or COLOPHON_CONFIG")
	return command
}
