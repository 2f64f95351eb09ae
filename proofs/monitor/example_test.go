package monitor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"colophon/api"
	"colophon/internal/datadir"
	"colophon/internal/server"
	"colophon/ledger"
	"colophon/proofs"
	"colophon/proofs/monitor"
	"colophon/proofs/monitor/fetch"
	"colophon/proofs/replay"
)

// This example audits a ledger once: its log, its content, and the server's answers. An
// auditor that repeats the audit later sets Options.StateFile.
func Example() {
	url, key, stop, err := serve()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()

	report, err := monitor.Run(context.Background(), monitor.Options{
		Server:        fetch.Server{URL: url},
		Ledger:        "default",
		Keys:          []*proofs.Verifier{key},
		CheckContent:  true,
		AnswerChecker: replay.New(replay.Options{}),
	})
	if err != nil {
		fmt.Println("the audit could not finish:", err)
		return
	}
	for _, finding := range report.Findings {
		fmt.Println(finding)
	}
	fmt.Printf("clean: %v, %d events, %d records\n", report.Clean, report.Size, report.Records)
	// Output: clean: true, 2 events, 1 records
}

// serve starts a server whose ledger contains one record.
func serve() (url string, key *proofs.Verifier, stop func(), err error) {
	data, err := os.MkdirTemp("", "example-")
	if err != nil {
		return "", nil, nil, err
	}
	log := slog.New(slog.DiscardHandler)
	node, err := server.OpenNode(context.Background(), server.Config{DataDir: data}.WithDefaults(), datadir.KeyFiles(data), log)
	if err != nil {
		return "", nil, nil, errors.Join(err, os.RemoveAll(data))
	}
	service, err := api.New(api.Config{Host: node.Host, Index: node.Index, Logger: log, SpoolDir: datadir.SpoolFolder(data), Version: "example"})
	if err != nil {
		return "", nil, nil, errors.Join(err, node.Close(), os.RemoveAll(data))
	}
	front := httptest.NewServer(service)
	stop = func() {
		front.Close()
		_ = errors.Join(node.Close(), os.RemoveAll(data))
	}
	record := `{"payload":{"question":"Who keeps the light?"},"output":"Ana Varga.","model":"m","temperature":0,"max_tokens":9}`
	answer, err := http.Post(front.URL+"/v1/ledgers/default/ipc-records", "application/json", strings.NewReader(record))
	if err == nil {
		err = answer.Body.Close()
	}
	l, ledgerErr := node.Host.Ledger(ledger.DefaultName)
	if err = errors.Join(err, ledgerErr); err == nil {
		key, err = proofs.ParseVerifier(l.VerifierKey())
	}
	if err != nil {
		stop()
	}
	return front.URL, key, stop, err
}
