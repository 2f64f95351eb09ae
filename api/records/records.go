// Package records takes single records and verbs: POST of the four kinds, of states,
// validations, sources, and of the redaction of one record. A record comes in at Write; a
// handler decodes it, hands it to the ledger, and answers the receipt.
package records

import (
	"github.com/prometheus/client_golang/prometheus"

	"colophon/api/call"
)

// Handlers serves the routes that write records.
type Handlers struct {
	*call.Shared
	// Appended observes, by ledger, how long single records and verbs wait for their commit.
	Appended *prometheus.HistogramVec
}
