package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
)

// tlsFiles is the server's certificate, its key, and the authority that signs client
// certificates, as files that may be replaced at any time.
type tlsFiles struct {
	cert, key string
	clientCA  string // may be empty: no client certificates
	log       *slog.Logger

	mu sync.Mutex // guards what follows
	// seen is what the files were like when they were read last, whether they were
	// good or not; nil for one that could not be looked at.
	seen   [3]fs.FileInfo
	config *tls.Config // of the last that were good
}

// openTLS reads the files, which must be good this time. Each handshake looks
// whether they have changed; those that are no good then are logged, and the last
// ones are used on. (Certificate and key are never replaced in one instant.)
func openTLS(config serveConfig, log *slog.Logger) (*tls.Config, error) {
	f := &tlsFiles{cert: config.TLSCert, key: config.TLSKey, clientCA: config.TLSClientCA, log: log}
	f.seen = f.look()
	var err error
	if f.config, err = f.load(); err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: f.current}, nil
}

// current is the configuration for a new connection.
func (f *tlsFiles) current(*tls.ClientHelloInfo) (*tls.Config, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.look()
	if unchanged(f.seen, now) {
		return f.config, nil
	}
	f.seen = now
	config, err := f.load()
	if err != nil {
		f.log.Error("the new certificate cannot be used; going on with the last one", "error", err)
		return f.config, nil
	}
	f.config = config
	f.log.Info("the certificate was read anew", "holds_until", config.Certificates[0].Leaf.NotAfter)
	return config, nil
}

// look is what the files are like.
func (f *tlsFiles) look() (infos [3]fs.FileInfo) {
	for i, path := range []string{f.cert, f.key, f.clientCA} {
		if info, err := os.Stat(path); err == nil {
			infos[i] = info
		}
	}
	return infos
}

func unchanged(before, now [3]fs.FileInfo) bool {
	for i, a := range before {
		b := now[i]
		if (a == nil) != (b == nil) {
			return false
		}
		if a != nil && !(os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()) {
			return false
		}
	}
	return true
}

// load reads the files. A client certificate is verified where there is one, and
// need not be there: what a request may do is decided request by request.
func (f *tlsFiles) load() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, fmt.Errorf("tls-cert %s, tls-key %s: %w", f.cert, f.key, err)
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, Certificates: []tls.Certificate{pair},
	}
	if f.clientCA == "" {
		return config, nil
	}
	text, err := os.ReadFile(f.clientCA)
	if err != nil {
		return nil, fmt.Errorf("tls-client-ca: %w", err)
	}
	config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
	if !config.ClientCAs.AppendCertsFromPEM(text) {
		return nil, errors.New("tls-client-ca " + f.clientCA + ": there is no PEM certificate in it")
	}
	return config, nil
}
