// Package limits restricts what clients can demand of a server. It limits connections, rates,
// memory, heavy work, and the time that a client can take to send a body or to read a response.
package limits

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"time"
)

// RefusalReason is the reason why a request or a line of a batch was refused, or a client was
// disconnected. It is used as a label value of the metric colophon_refusals_total.
type RefusalReason string

// The reasons for a refusal. docs/metrics.md says what to do about each of them.
const (
	// ReasonRate means that an identity has exceeded ServerLimits.RequestRate.
	ReasonRate RefusalReason = "rate"
	// ReasonAddressRate means that an address has exceeded ServerLimits.AddressRate.
	ReasonAddressRate RefusalReason = "address_rate"
	// ReasonAuthFailures means that an address has sent too many invalid credentials.
	ReasonAuthFailures RefusalReason = "failed_authentications"
	// ReasonConnections means that too many connections or HTTP/2 requests are open, in total or
	// from one address.
	ReasonConnections RefusalReason = "connections"
	// ReasonBodyMemory means that the body of a write got no memory within ServerLimits.MaxWait.
	ReasonBodyMemory RefusalReason = "body_memory"
	// ReasonAnswerMemory means that a response, or the body of a read, got no memory within
	// ServerLimits.MaxWait, or that too many requests for metrics are in progress.
	ReasonAnswerMemory RefusalReason = "answer_memory"
	// ReasonBatches means that too many batches or OTLP requests are in progress, in total or for
	// one caller.
	ReasonBatches RefusalReason = "batches"
	// ReasonFollowers means that too many clients follow live events, in total or for one caller.
	ReasonFollowers RefusalReason = "followers"
	// ReasonRedactions means that a bulk redaction or bulk state change waited longer than
	// ServerLimits.MaxWait for another one in the same ledger.
	ReasonRedactions RefusalReason = "redactions"
	// ReasonSpool means that clients have left too many results of batches unread.
	ReasonSpool RefusalReason = "spool"
	// ReasonSize means that a body or a line of a batch is too long, or that an OTLP request has
	// too many items.
	ReasonSize RefusalReason = "size"
	// ReasonURL means that a URL is too long or has too many parameters.
	ReasonURL RefusalReason = "url"
	// ReasonExpansion means that a compressed body expands too much, or needs too large a zstd
	// window.
	ReasonExpansion RefusalReason = "decompression"
	// ReasonSlowSender means that a body or the next line of a batch did not arrive in time.
	ReasonSlowSender RefusalReason = "slow_sender"
	// ReasonSlowReader means that a client did not read its response in time.
	ReasonSlowReader RefusalReason = "slow_reader"
	// ReasonQueueFull means that too many records are waiting to be committed.
	ReasonQueueFull RefusalReason = "queue"
	// ReasonHeavyWork means that a request got no core within ServerLimits.MaxWait.
	ReasonHeavyWork RefusalReason = "heavy_work"
	// ReasonDiskSpace means that the disk is nearly full.
	ReasonDiskSpace RefusalReason = "disk"
)

var RefusalReasons = [...]RefusalReason{ReasonRate, ReasonAddressRate, ReasonAuthFailures, ReasonConnections, ReasonBodyMemory, ReasonAnswerMemory, ReasonBatches,
	ReasonFollowers, ReasonRedactions, ReasonSpool, ReasonSize, ReasonURL, ReasonExpansion, ReasonSlowSender, ReasonSlowReader, ReasonQueueFull, ReasonHeavyWork, ReasonDiskSpace}

// RejectedError is returned when a request, or a line of a batch, is refused.
type RejectedError struct {
	Reason     RefusalReason // counted in the metrics unless it is empty
	Status     int           // status of the HTTP response
	RetryAfter time.Duration // time after which the client can retry, for status 429 or 503
	Detail     string        // explanation for the client
}

// Error implements error.
func (e *RejectedError) Error() string { return e.Detail }

// NewRejectedError returns a RejectedError. It formats the Detail like fmt.Sprintf.
func NewRejectedError(reason RefusalReason, status int, wait time.Duration, format string, args ...any) *RejectedError {
	return &RejectedError{reason, status, wait, fmt.Sprintf(format, args...)}
}

// Limiter enforces ServerLimits.
type Limiter struct {
	Limits           ServerLimits
	Rates            *rates           // limits requests, batch lines, and failures per second, per identity or address
	WriteMemory      *MemoryBudget    // memory for bodies of writes
	ReadMemory       *MemoryBudget    // memory for responses, and for bodies of requests that record nothing
	Connections      *connections     // limits how many connections are open, in total and from each address
	BatchSlots       *slots           // limits how many batches and OTLP requests are in progress
	FollowerSlots    *slots           // limits how many clients follow live events
	ScrapeSlots      *slots           // limits how many requests for metrics are answered at the same time
	StreamSlots      *slots           // limits concurrent HTTP/2 requests, in total and for each address
	RedactionTurns   *turns           // makes bulk redactions and bulk state changes of each ledger run one at a time
	HeavyWorkLimiter HeavyWorkLimiter // limits how many writes decode large input at the same time
	// ParseSlots holds a token for each chunk of a batch that is being parsed. It has one token
	// per core, so that the sequencer and the index never wait behind more chunks than that.
	ParseSlots      chan struct{}
	ReadScheduler   *ReadScheduler   // makes reads take turns on the cores
	SpoolSpace      *SpoolSpace      // limits the total size of the temporary files of batches
	FollowerLimiter *FollowerLimiter // limits the bytes per second sent to all followers
}

func New(load ServerLimits) *Limiter {
	return &Limiter{
		Limits:           load,
		Rates:            newRates(load),
		WriteMemory:      NewMemoryBudget(int64(load.MaxBodyMemory), load.MaxWait, ReasonBodyMemory, "bodies"),
		ReadMemory:       NewMemoryBudget(int64(load.MaxAnswerMemory), load.MaxWait, ReasonAnswerMemory, "answers"),
		Connections:      newConnections(load),
		BatchSlots:       newSlots(load.MaxBatches),
		FollowerSlots:    newSlots(load.MaxFollowers),
		ScrapeSlots:      newSlots(MaxScrapes),
		StreamSlots:      newSlots(load.MaxConnections),
		RedactionTurns:   newTurns(load.MaxWait),
		ParseSlots:       make(chan struct{}, runtime.GOMAXPROCS(0)),
		HeavyWorkLimiter: newHeavyWorkLimiter(max(2, runtime.GOMAXPROCS(0)/2), load.MaxWait),
		ReadScheduler:    NewReadScheduler(runtime.GOMAXPROCS(0), load.MaxWait),
		SpoolSpace:       &SpoolSpace{MaxBytes: int64(load.MaxSpool)},
		FollowerLimiter:  NewFollowerLimiter(int64(load.FollowRate)),
	}
}

// SlowBodyRefusal returns a 408 RejectedError if err means that a body did not arrive in time, and nil
// otherwise.
func SlowBodyRefusal(err error, within time.Duration) *RejectedError {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return NewRejectedError(ReasonSlowSender, http.StatusRequestTimeout, 0, "the body did not arrive within %s", within)
}
