// Package records serves the requests that write a single record or action. A record has one of
// four kinds. An action is a state, a note, a validation, a source, or the redaction of one record.
// Each handler decodes the request, passes it to the ledger, and sends the receipt. WriteHandler
// handles the records.
package records

import (
	"github.com/prometheus/client_golang/prometheus"

	"colophon/api/call"
)

// Handlers serves the routes that write records.
type Handlers struct {
	*call.ServerState
	// AppendDuration measures how long single records and actions wait for their commit, by ledger.
	AppendDuration *prometheus.HistogramVec
}
