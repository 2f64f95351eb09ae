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
		Long: `Run the server until it is asked to end (SIGTERM, SIGINT): then it takes no new
requests, finishes those under way, and commits what it accepted. A second
signal ends it at once; nothing that was acknowledged is lost by that either.

The first start makes the data folder, a signing key (keys/default.key: keep a
copy of it) and the ledger "default", and says so; a folder that holds other things
and no ledger is refused. Every flag can also be set by an
environment variable (COLOPHON_LISTEN for --listen) and by name in a YAML file.

Who may do what is said by tokens (colophon token create), and for tokens of OpenID
Connect issuers and for client certificates by --access-file:
  oidc:
    - issuer: https://id.example.org
      audience: colophon
      rules:
        - {claim: groups, value: writers, ledgers: [default], scopes: [write, read]}
  mtls:
    - {subject: "CN=witness,O=Example", name: witness, ledgers: ["*"], scopes: [log]}
While there are neither tokens nor such rules, the server asks for no credentials
and listens on loopback only, unless --insecure says otherwise.

Exit codes: 1 the server or its storage failed, 2 bad flags or configuration,
4 another process uses the data folder, 5 a ledger is damaged.`,
		Example: `  colophon serve --data ./data
  COLOPHON_LISTEN=127.0.0.1:9000 colophon serve --config colophon.yaml`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			config, err := server.Resolve(file, c.Env, command.Flags())
			if err != nil {
				return cli.Exitf(cli.ExitUsage, "%w", err)
			}
			return server.Run(command.Context(), c, config, buildVersion())
		},
	}
	flagged.Bind(command.Flags())
	command.Flags().StringVar(&file, "config", c.Environment("COLOPHON_CONFIG", ""), "YAML `file` with settings by the names of these flags, or COLOPHON_CONFIG")
	return command
}
