package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sort"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// serverAnswers are what a server says when it is asked, and why it does not.
type serverAnswers struct {
	url string // empty: none was asked
	err error  // nothing answers: all that follows is empty

	version string
	ready   error         // why it is not
	date    time.Time     // of the server; zero: it did not say
	skew    time.Duration // of its clock against this one

	// open says that it answers a request without credentials.
	open       bool
	ledgers    []ledgerAnswers
	ledgersErr error

	metrics    map[string]*dto.MetricFamily
	metricsErr error
}

// ledgerInfo is a ledger as the server describes it.
type ledgerInfo struct {
	Name        string    `json:"name"`
	Origin      string    `json:"origin"`
	VerifierKey string    `json:"verifier_key"`
	Created     time.Time `json:"created"`
	Frozen      bool      `json:"frozen"`
	OnMismatch  string    `json:"on_mismatch"`
	Log         string    `json:"log"`
	TreeSize    uint64    `json:"tree_size"`
}

// ledgerAnswers are what a server says of one ledger.
type ledgerAnswers struct {
	ledgerInfo
	Log       string    `json:"log"`
	Tip       string    `json:"tip"`
	LastEvent time.Time `json:"last_event"`

	entries []eventLine // the last few events
	receipt []byte      // of the last event
	perDay  float64     // events a day in the last week; 0: not known
	logErr  error       // why entries and receipt are not there
}

// eventLine is a line of /events.
type eventLine struct {
	Seq       uint64 `json:"seq"`
	EventHash string `json:"event_hash"`
	Entry     []byte `json:"entry"`
	Event     struct {
		Time time.Time `json:"time"`
	} `json:"event"`
}

// answerLimit is how long the doctor waits for an answer.
const answerLimit = 10 * time.Second

// ask asks a server for all that the doctor wants to know, metrics at an address that
// may be another.
func ask(ctx context.Context, asked, metrics *httpClient) serverAnswers {
	a := serverAnswers{url: asked.base}
	sent := time.Now()
	header, body, err := asked.get(ctx, "/version")
	if err != nil {
		a.err = err
		return a
	}
	var version struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(body, &version); err != nil || version.Version == "" {
		a.err = errors.New("what answers at " + asked.base + " is no colophon server")
		return a
	}
	a.version = version.Version
	if a.date, err = http.ParseTime(header.Get("Date")); err == nil {
		// The header has whole seconds, and was written on the way.
		a.skew = apart(a.date, sent, time.Now())
	}
	_, _, a.ready = asked.get(ctx, "/readyz")
	nobody := *asked
	nobody.token = ""
	_, _, err = nobody.get(ctx, "/v1/ledgers")
	a.open = err == nil
	a.askLedgers(ctx, asked)
	a.askMetrics(ctx, metrics)
	return a
}

// apart is how far a date of whole seconds lies outside the time in which it was
// written, by this clock.
func apart(date, earliest, latest time.Time) time.Duration {
	switch {
	case date.Before(earliest.Truncate(time.Second)):
		return date.Sub(earliest)
	case date.After(latest):
		return date.Sub(latest)
	}
	return 0
}

// get makes a request and returns the header and the body of the answer, an error for
// any but success.
func (c *httpClient) get(ctx context.Context, path string) (http.Header, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return nil, nil, err
	}
	response, err := c.do(request)
	if err != nil {
		return nil, nil, c.noAnswer(err)
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return nil, nil, c.refused(response)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, nil, c.noAnswer(err)
	}
	return response.Header, body, nil
}

func (a *serverAnswers) askLedgers(ctx context.Context, asked *httpClient) {
	_, body, err := asked.get(ctx, "/v1/ledgers")
	var list struct {
		Ledgers []ledgerAnswers `json:"ledgers"`
	}
	if err == nil {
		err = json.Unmarshal(body, &list)
	}
	if err != nil {
		a.ledgersErr = err
		return
	}
	a.ledgers = list.Ledgers
	for i := range a.ledgers {
		l := &a.ledgers[i]
		if l.logErr = l.askLog(ctx, asked); l.logErr == nil {
			l.perDay, l.logErr = l.growth(ctx, asked, a.date)
		}
	}
}

// lastEvents is how many events of a ledger are looked at.
const lastEvents = 16

// askLog asks for the last few events and the receipt of the last.
func (l *ledgerAnswers) askLog(ctx context.Context, asked *httpClient) error {
	if l.TreeSize == 0 {
		return errors.New("the ledger has no event")
	}
	var err error
	if l.entries, err = l.events(ctx, asked, l.TreeSize-min(lastEvents, l.TreeSize), lastEvents); err != nil {
		return err
	}
	_, l.receipt, err = asked.get(ctx, fmt.Sprintf("%s/records/%d/receipt?tree_size=%d", ledgerPath(l.Name), l.TreeSize-1, l.TreeSize))
	return err
}

// events asks for events from a seq upwards, at most that many.
func (l *ledgerAnswers) events(ctx context.Context, asked *httpClient, from, most uint64) ([]eventLine, error) {
	_, body, err := asked.get(ctx, fmt.Sprintf("%s/events?from=%d&limit=%d", ledgerPath(l.Name), from, most))
	if err != nil {
		return nil, err
	}
	var list []eventLine
	for line := range bytes.Lines(body) {
		var e eventLine
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("reading the events of ledger %q: %w", l.Name, err)
		}
		list = append(list, e)
	}
	return list, nil
}

// leastSpan is the shortest time by which growth is judged: a ledger that was just
// filled does not go on like that.
const leastSpan = 24 * time.Hour

// growth is how many events a day the ledger has got in the last week, or since it was
// made if that is later. It asks for one event at a time.
func (l *ledgerAnswers) growth(ctx context.Context, asked *httpClient, now time.Time) (perDay float64, err error) {
	since := now.AddDate(0, 0, -7)
	if l.Created.After(since) {
		since = l.Created
	}
	if now.Sub(since) < leastSpan {
		return 0, nil
	}
	first := sort.Search(int(l.TreeSize), func(seq int) bool {
		if err != nil {
			return true
		}
		var list []eventLine
		if list, err = l.events(ctx, asked, uint64(seq), 1); err != nil || len(list) == 0 {
			return true
		}
		return !list[0].Event.Time.Before(since)
	})
	return float64(l.TreeSize-uint64(first)) / (now.Sub(since).Hours() / 24), err
}

func (a *serverAnswers) askMetrics(ctx context.Context, asked *httpClient) {
	_, body, err := asked.get(ctx, "/metrics")
	if err == nil {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		a.metrics, err = parser.TextToMetricFamilies(bytes.NewReader(body))
	}
	a.metricsErr = err
}

// gauges are the values of a gauge by ledger, or by "" where it has no ledgers; nil if
// the server does not show it.
func (a *serverAnswers) gauges(name string) map[string]float64 {
	family := a.metrics[name]
	if family == nil {
		return nil
	}
	values := make(map[string]float64)
	for _, m := range family.GetMetric() {
		ledger := ""
		for _, label := range m.GetLabel() {
			if label.GetName() == "ledger" {
				ledger = label.GetValue()
			}
		}
		values[ledger] = m.GetGauge().GetValue()
	}
	return values
}
