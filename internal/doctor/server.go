package doctor

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"sort"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"colophon/client"
	"colophon/client/wire"
	"colophon/internal/remote"
	"colophon/internal/server"
)

// serverAnswers holds everything that the checks need to know from a server.
type serverAnswers struct {
	url string // empty if no server was queried
	err error  // why the server does not answer; all fields below are then empty

	version string
	ready   error         // why the server is not ready
	date    time.Time     // time on the server's clock; zero if unknown
	skew    time.Duration // how far the server's clock is ahead of this machine's

	// open means that the server answers requests without credentials.
	open       bool
	ledgers    []ledgerAnswers
	ledgersErr error

	metrics    map[string]*dto.MetricFamily
	metricsErr error
}

// ledgerAnswers holds a server's answers about one ledger.
type ledgerAnswers struct {
	wire.LedgerDescription
	lastEvent time.Time

	entries []wire.EventLine // the last few events
	receipt []byte           // receipt of the last event
	perDay  float64          // average number of events per day in the last week; 0 if unknown
	logErr  error            // why entries, receipt, or perDay is missing
}

// answerTimeout is the time limit for each request to the server.
const answerTimeout = 10 * time.Second

// askServer queries the server given by o or, if o has no URL, the server at the address in the
// settings. An error means that the command line is wrong.
func (d *deployment) askServer(ctx context.Context, o remote.Options) error {
	if d.own = o.URL == ""; d.own {
		o.URL = d.settings.serverURL()
	}
	if o.URL == "" {
		return nil
	}
	s, err := o.Connect(d.console)
	if err != nil {
		return err
	}
	if d.own && o.CAFile == "" {
		d.settings.trustOwnCertificate(s)
	}
	metrics := s
	if base := server.ListenURL("http", d.settings.config.MetricsListenAddress); base != "" {
		metrics = &remote.Connection{URL: base} // the address for metrics requires no token
		if metrics.Client, err = metrics.NewClient(); err != nil {
			return err
		}
	}
	d.server, err = ask(ctx, s, metrics)
	return err
}

// trustOwnCertificate makes the client of a server on this machine trust the certificate in the
// settings, no matter who signed it and for which name. If the certificate cannot be read,
// trustOwnCertificate does nothing, because checkCertificate reports the error.
func (s settings) trustOwnCertificate(to *remote.Connection) {
	text, err := os.ReadFile(s.config.TLSCertFile)
	authorities := x509.NewCertPool()
	transport, known := to.Transport.(*http.Transport)
	if err != nil || !known || !authorities.AppendCertsFromPEM(text) {
		return
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12, ServerName: s.certificateName(to.URL)}
}

// certificateName returns a name for which the server's certificate is valid, preferably the host
// name in the URL.
func (s settings) certificateName(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	pair, err := tls.LoadX509KeyPair(s.config.TLSCertFile, s.config.TLSKeyFile)
	if err != nil || pair.Leaf.VerifyHostname(u.Hostname()) == nil || len(pair.Leaf.DNSNames) == 0 {
		return u.Hostname()
	}
	return pair.Leaf.DNSNames[0]
}

// get sends one request. If it fails, the error explains why in terms of the command-line flags.
func get(ctx context.Context, s *remote.Connection, path string) (*client.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	answer, err := s.Do(ctx, client.Request{Path: path})
	if err != nil {
		return nil, s.Explain(err)
	}
	return answer, nil
}

// ask queries a server for everything that the checks need to know. metrics is a client for the
// address at which the same server serves its metrics, which may differ from the address of s. ask
// returns an error only if a client cannot be created.
func ask(ctx context.Context, s, metrics *remote.Connection) (serverAnswers, error) {
	a := serverAnswers{url: s.URL}
	anonymous, err := s.WithoutToken()
	if err != nil {
		return a, err
	}
	sent := time.Now()
	answer, err := get(ctx, s, "/version")
	if err != nil {
		a.err = err
		return a, nil
	}
	var version wire.Versions
	if err := json.Unmarshal(answer.Body, &version); err != nil || version.Server == "" {
		a.err = fmt.Errorf("the server at %s is not a Colophon server", s.URL)
		return a, nil
	}
	a.version = version.Server
	if a.date, err = http.ParseTime(answer.Header.Get("Date")); err == nil {
		a.skew = clockDifference(a.date, sent, time.Now())
	}
	_, a.ready = get(ctx, s, "/readyz")
	_, err = get(ctx, anonymous, "/v1/ledgers")
	a.open = err == nil
	a.ledgers, a.ledgersErr = askLedgers(ctx, s, a.date)
	a.metrics, a.metricsErr = askMetrics(ctx, metrics)
	return a, nil
}

// clockDifference compares a server's clock with this machine's. date is the Date header of a
// response, in whole seconds. began and ended are this machine's times before the request and after
// the response. The result is 0 if date lies between them. Otherwise, it is the distance of date
// from that period, and is positive if the server's clock is ahead.
func clockDifference(date, began, ended time.Time) time.Duration {
	switch {
	case date.Before(began.Truncate(time.Second)):
		return date.Sub(began)
	case date.After(ended):
		return date.Sub(ended)
	}
	return 0
}

// askLedgers queries the server about each ledger that the token has a grant on. now is the
// server's time.
func askLedgers(ctx context.Context, s *remote.Connection, now time.Time) ([]ledgerAnswers, error) {
	answer, err := get(ctx, s, "/v1/ledgers")
	if err != nil {
		return nil, err
	}
	var list wire.LedgerList
	if err := json.Unmarshal(answer.Body, &list); err != nil {
		return nil, err
	}
	ledgers := make([]ledgerAnswers, len(list.Ledgers))
	for i, description := range list.Ledgers {
		l := &ledgers[i]
		l.LedgerDescription = description
		if l.TreeSize > 0 {
			if l.lastEvent, err = l.LastEventTime.Parse(); err != nil {
				return nil, fmt.Errorf("parsing the time of the last event of ledger %q: %w", l.Name, err)
			}
		}
		if l.logErr = l.askLog(ctx, s); l.logErr == nil {
			l.perDay, l.logErr = l.growth(ctx, s, now)
		}
	}
	return ledgers, nil
}

// lastEvents is the number of events at the end of each log that the doctor verifies.
const lastEvents = 16

// askLog fetches the ledger's last few events and the receipt of the last one.
func (l *ledgerAnswers) askLog(ctx context.Context, s *remote.Connection) error {
	if l.TreeSize == 0 {
		return errors.New("the ledger has no events")
	}
	var err error
	if l.entries, err = l.events(ctx, s, l.TreeSize-min(lastEvents, l.TreeSize), lastEvents); err != nil {
		return err
	}
	answer, err := get(ctx, s, fmt.Sprintf("%s/records/%d/receipt?tree_size=%d", s.Ledger(l.Name).Path(), l.TreeSize-1, l.TreeSize))
	if err != nil {
		return err
	}
	l.receipt = answer.Body
	return nil
}

// events fetches up to limit events, starting with the event whose seq is from.
func (l *ledgerAnswers) events(ctx context.Context, s *remote.Connection, from, limit uint64) ([]wire.EventLine, error) {
	answer, err := get(ctx, s, fmt.Sprintf("%s/events?from=%d&limit=%d", s.Ledger(l.Name).Path(), from, limit))
	if err != nil {
		return nil, err
	}
	var list []wire.EventLine
	for line := range bytes.Lines(answer.Body) {
		var e wire.EventLine
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("reading the events of ledger %q: %w", l.Name, err)
		}
		list = append(list, e)
	}
	return list, nil
}

// minGrowthTime is the shortest period over which growth is measured. A shorter period could be
// dominated by an initial import, which does not predict future growth.
const minGrowthTime = 24 * time.Hour

// growth returns the average number of events per day that the ledger gained in the last week, or
// since its creation if that is more recent. It returns 0 if the ledger is younger than
// minGrowthTime. It finds the first event of that period by binary search, with one request per
// step.
func (l *ledgerAnswers) growth(ctx context.Context, s *remote.Connection, now time.Time) (perDay float64, err error) {
	since := now.AddDate(0, 0, -7)
	created, err := l.Created.Parse()
	if err != nil {
		return 0, fmt.Errorf("parsing the creation time of ledger %q: %w", l.Name, err)
	}
	if created.After(since) {
		since = created
	}
	if now.Sub(since) < minGrowthTime {
		return 0, nil
	}
	first := sort.Search(int(l.TreeSize), func(seq int) bool {
		if err != nil {
			return true
		}
		var at time.Time
		at, err = l.timeOf(ctx, s, uint64(seq))
		return err != nil || !at.Before(since)
	})
	return float64(l.TreeSize-uint64(first)) / (now.Sub(since).Hours() / 24), err
}

// timeOf fetches an event and returns the time at which it was recorded.
func (l *ledgerAnswers) timeOf(ctx context.Context, s *remote.Connection, seq uint64) (time.Time, error) {
	list, err := l.events(ctx, s, seq, 1)
	if err != nil {
		return time.Time{}, err
	}
	if len(list) == 0 {
		return time.Time{}, fmt.Errorf("ledger %q has no event %d", l.Name, seq)
	}
	var event struct {
		Time time.Time `json:"time"`
	}
	if err := json.Unmarshal(list[0].Event, &event); err != nil {
		return time.Time{}, fmt.Errorf("reading event %d of ledger %q: %w", seq, l.Name, err)
	}
	return event.Time, nil
}

func askMetrics(ctx context.Context, s *remote.Connection) (map[string]*dto.MetricFamily, error) {
	answer, err := get(ctx, s, "/metrics")
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(bytes.NewReader(answer.Body))
}

// gauges returns the values of a gauge, keyed by ledger, or by "" if the gauge has no ledger label.
// It returns nil if the server does not expose the gauge.
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
