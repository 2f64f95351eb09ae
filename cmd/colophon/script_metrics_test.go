package main

import (
	"net/http"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptScrape writes the metrics from the server's /metrics that are derived from the log,
// including their HELP and TYPE lines, to a file. Usage: scrape FILE.
func scriptScrape(ts *testscript.TestScript, _ bool, args []string) {
	_, answer := request(ts, http.MethodGet, "/metrics", http.Header{}, nil)
	var derived strings.Builder
	for line := range strings.Lines(string(answer)) {
		name := strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE ")
		if strings.HasPrefix(name, "colophon_ledger_") {
			derived.WriteString(line)
		}
	}
	writeFile(ts, args[0], []byte(derived.String()))
}
