package otlp

import (
	"fmt"
	"strings"

	"colophon/ledger/record"
)

// PathAdvice returns advice for a request to a path that has no route. It covers the paths that an
// exporter uses if its endpoint lacks the path of a ledger or names the wrong signal, and says which
// path to use instead. For every other path, it returns "".
func PathAdvice(path string) string {
	name := "LEDGER"
	if rest, of := strings.CutPrefix(path, "/v1/ledgers/"); of {
		if first, _, _ := strings.Cut(rest, "/"); record.IsLedgerName(first) {
			name = first
		}
	}
	base := "/v1/ledgers/" + name + "/otlp"
	switch path = strings.TrimRight(path, "/"); {
	case strings.HasSuffix(path, "/v1/traces"):
		return fmt.Sprintf("an exporter sends spans to %s/v1/traces; set OTEL_EXPORTER_OTLP_ENDPOINT to a URL that ends in %[1]s", base)
	case strings.HasSuffix(path, "/v1/logs"):
		return fmt.Sprintf("an exporter sends log records to %s/v1/logs; set OTEL_EXPORTER_OTLP_ENDPOINT to a URL that ends in %[1]s", base)
	case strings.HasSuffix(path, "/v1/metrics"):
		return "a ledger does not record metrics; set OTEL_METRICS_EXPORTER=none"
	case path == base:
		return fmt.Sprintf("an exporter sends spans to %s/v1/traces and log records to %[1]s/v1/logs; the endpoint URL for a single signal must end in that signal's path", base)
	}
	return ""
}
