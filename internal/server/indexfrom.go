package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"colophon/internal/cli"
	"colophon/internal/indexfetch"
	"colophon/internal/remote"
	"colophon/ledger"
	"colophon/proofs"
)

// indexServers splits Config.IndexURLs into URLs. It returns nil if the setting is empty.
func (c Config) indexServers() []string {
	if c.IndexURLs == "" {
		return nil
	}
	return strings.Split(c.IndexURLs, ",")
}

// checkIndexFrom checks the settings for fetching an index. The error says which setting is wrong.
func (c Config) checkIndexFrom() error {
	for _, url := range c.indexServers() {
		if !strings.Contains(url, "://") || advertised(url, "") == "" {
			return fmt.Errorf("index-from: %q is not the URL of a server, such as https://node1.example.org:8443", url)
		}
	}
	if c.IndexURLs == "" && (c.IndexTokenFile != "" || c.IndexCAFile != "") {
		return errors.New("index-token-file and index-ca-file: set index-from too")
	}
	return nil
}

// configureIndexFetch allows the index to replace itself with a snapshot from another server if it
// is far behind its log. configureIndexFetch itself fetches nothing.
func (n *Node) configureIndexFetch(c *cli.Console, config Config) error {
	if config.IndexURLs == "" {
		return nil
	}
	f := &indexfetch.Fetcher{Root: n.root}
	for _, url := range config.indexServers() {
		s, err := remote.Options{URL: url, TokenFile: config.IndexTokenFile, CAFile: config.IndexCAFile}.Connect(c, indexfetch.ClientOptions()...)
		if err != nil {
			return fmt.Errorf("index-from: %w", err)
		}
		f.Servers = append(f.Servers, indexfetch.Server{URL: s.URL, Client: s.Client})
	}
	n.Index.SetSnapshotFetchFunc(f.Fetch)
	return nil
}

// A snapshot from another server can cover events that this server has not yet read from their
// shared database. The function root waits for these events for up to rootWait, and pauses for
// rootPause between checks.
const (
	rootWait  = 10 * time.Second
	rootPause = 50 * time.Millisecond
)

// root returns the root of a ledger's tree at the given size. It waits up to rootWait for the
// ledger to be open and to have that size.
func (n *Node) root(ctx context.Context, name string, size uint64) (proofs.Hash, error) {
	limited, cancel := context.WithTimeout(ctx, rootWait)
	defer cancel()
	for {
		l, err := n.Host.Ledger(name)
		if err == nil {
			head := l.Head()
			if head.Size >= size {
				return l.Prover(ctx, head).Root(size)
			}
			err = fmt.Errorf("the other server's index covers %d events, but the local log of ledger %q has only %d", size, name, head.Size)
		} else if !errors.Is(err, ledger.ErrUnknownLedger) {
			return proofs.Hash{}, err
		}
		select {
		case <-limited.Done():
			return proofs.Hash{}, err
		case <-time.After(rootPause):
		}
	}
}
