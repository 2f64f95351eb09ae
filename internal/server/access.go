package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"

	"colophon/api/access"
	"colophon/internal/cli"
	"colophon/internal/datadir"
)

// gate authenticates requests and encrypts connections.
type gate struct {
	who    *access.Authenticator
	tls    *tls.Config // nil if connections are not encrypted
	shared io.Closer   // the database that holds the tokens; nil if they are in the data folder
}

// close stores when each token was last used, and closes the database that holds the tokens.
func (g gate) close() error {
	g.who.Close()
	if g.shared == nil {
		return nil
	}
	return g.shared.Close()
}

// openGate reads the access rules and the certificate. It returns an error if other machines can
// reach the server's address and the server would require no credentials, unless config.Insecure is
// set.
func openGate(ctx context.Context, config Config, log *slog.Logger) (_ gate, err error) {
	if info, err := os.Stat(config.DataDir); err == nil && !info.IsDir() {
		return gate{}, cli.FileStateErrorf("data: %s is not a folder", config.DataDir)
	}
	var rules access.Rules
	if config.AccessFile != "" {
		if rules, err = access.ReadRules(config.AccessFile); err != nil {
			return gate{}, cli.FileStateErrorf("access-file %s: %w", config.AccessFile, err)
		}
		if len(rules.OIDC)+len(rules.MTLS) == 0 {
			return gate{}, cli.FileStateErrorf("access-file %s has no rules; add rules, or omit --access-file", config.AccessFile)
		}
	}
	switch certificates := len(rules.MTLS) > 0; {
	case certificates && config.TLSClientCAFile == "":
		return gate{}, cli.ExitErrorf(cli.ExitUsage, "access-file %s: the mtls rules require --tls-client-ca (the CA that signs client certificates)", config.AccessFile)
	case !certificates && config.TLSClientCAFile != "":
		return gate{}, cli.ExitErrorf(cli.ExitUsage, "tls-client-ca: no rule grants access to client certificates; add mtls rules to --access-file")
	}
	log = log.With("part", "access")
	var g gate
	about := access.Config{Dir: datadir.TokenFolder(config.DataDir), Rules: rules, Logger: log}
	if config.TLSCertFile != "" {
		files, err := LoadTLSFiles(config, log)
		if err != nil {
			return gate{}, cli.FileStateErrorf("%w", err)
		}
		g.tls, about.TrustsAuthority = files.server(), files.trusts
	}
	if config.StoreURL != "" {
		database, shared, failed := openTokens(ctx, config, log) // not err: a new err would hide the one that the deferred function reads
		if failed != nil {
			return gate{}, failed
		}
		g.shared, about.SharedStore = database, shared
		defer func() {
			if err != nil {
				err = errors.Join(err, database.Close())
			}
		}()
	}
	who, err := access.Open(about)
	if errors.Is(err, fs.ErrPermission) {
		return gate{}, cli.ExitErrorf(cli.ExitFailed, "%w; run the server as the owner of the data folder", err)
	}
	if err != nil {
		return gate{}, cli.FileStateErrorf("%w", err)
	}
	for _, at := range [][2]string{{"listen", config.ListenAddress}, {"otlp-grpc-listen", config.OTLPGRPCListenAddress}} {
		host, _, _ := net.SplitHostPort(at[1])
		if at[1] == "" || who.RequiresIdentity() || config.Insecure || cli.IsLoopback(host) {
			continue
		}
		who.Close()
		return gate{}, cli.ExitErrorf(cli.ExitUsage, "%s: %s can be reached from other machines, but there is no authentication: anyone who can reach it could write to the ledgers. "+
			"Create a token (colophon token create --help), write rules into --access-file, or listen on 127.0.0.1; "+
			"pass --insecure only if everyone on the network is allowed to do everything", at[0], at[1])
	}
	g.who = who
	return g, nil
}

// serve serves connections until the server is shut down. It uses TLS if a certificate is
// configured.
func (g gate) serve(server *http.Server, listener net.Listener) error {
	if g.tls == nil {
		return server.Serve(listener)
	}
	server.TLSConfig = g.tls
	return server.ServeTLS(listener, "", "")
}

func (g gate) scheme() string {
	if g.tls != nil {
		return "https"
	}
	return "http"
}

// describe returns the kinds of credentials that the server accepts, in words.
func (g gate) describe(config Config) string {
	host, _, _ := net.SplitHostPort(config.ListenAddress)
	switch {
	case g.who.RequiresIdentity():
		return g.who.Summary()
	case cli.IsLoopback(host):
		return "none: only this machine can reach the server"
	}
	return "none: anyone who can reach the server can do everything"
}

// warn logs a warning if other machines can reach the address and the server requires no
// credentials or does not encrypt connections.
func (g gate) warn(listen string, log *slog.Logger, address net.Addr) {
	host, _, _ := net.SplitHostPort(listen)
	switch {
	case cli.IsLoopback(host):
	case !g.who.RequiresIdentity():
		log.Warn("there is no authentication: anyone who can reach this address can read and write the ledgers", "address", address.String())
	case g.tls == nil:
		log.Warn("tokens are sent unencrypted: set --tls-cert and --tls-key, or put a TLS proxy in front of the server", "address", address.String())
	}
}
