package main

import (
	"net/http"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptScrape writes the server's log-derived metrics to a file, including their HELP and TYPE
// lines. Usage: scrape FILE.
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
