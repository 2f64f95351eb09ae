package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"colophon/internal/testing/ledgertest"
	"colophon/proofs/monitor/fetch"
)

// transport is a function that implements http.RoundTripper.
type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// When askAll returns no question is under way: the reference is closed next.
func TestNoQuestionOutlivesTheAuditor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asking atomic.Int64
		slow, err := fetch.New(fetch.Server{URL: "http://server.invalid", Transport: transport(func(r *http.Request) (*http.Response, error) {
			asking.Add(1)
			defer asking.Add(-1)
			<-r.Context().Done()
			if strings.HasSuffix(r.URL.Path, "/later") {
				time.Sleep(time.Second) // of the bubble: it does not take notice at once
			}
			return nil, r.Context().Err()
		})}, "", time.Hour, 4)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			synctest.Wait()
			assert.Equal(t, int64(4), asking.Load(), "as many at once as it may")
			cancel()
		}()
		c := newComparer(slow, nil, 2)
		questions := append([]question{{path: "/first", values: url.Values{}, form: indexForm}}, slices.Repeat([]question{{path: "/later", values: url.Values{}, form: indexForm}}, 9)...)
		c.askAll(ctx, questions, 4, func(_ int, r comparison) bool {
			require.ErrorIs(t, r.err, context.Canceled)
			return false
		})
		require.Zero(t, asking.Load())
	})
}

// The reference finds the same values as a server in the path and the query of a question.
func TestReferenceReadsNamesAsAServerDoes(t *testing.T) {
	l := ledgertest.NewForAnswers(t, 5)
	url, stop := ledgertest.Serve(t, l.Data)
	for i, name := range []string{"", ".", "..", "a/b", "/", "a%2Fb", "%", "a b", "a+b", "a?b=c&d", "a#b", ":a", "*", "é☃", "\u0000", "<&>"} {
		text, err := json.Marshal(name)
		require.NoError(t, err)
		run, err := json.Marshal(fmt.Sprint("run ", i, " ", name))
		require.NoError(t, err)
		producer := ""
		if name != "" && name != "\u0000" { // no producer has such a name
			producer = fmt.Sprintf(`"producer":{"id":%s,"seq":1},`, text)
		}
		for path, body := range map[string]string{
			"/ipc-records":       `{"run_id":%[2]s,%[3]s"payload":{"q":"Who?"},"output":%[1]s,"model":%[1]s,"temperature":0.5,"max_tokens":9,"seed":7,"labels":{"name":%[1]s}}`,
			"/citation-sets":     `{"run_id":%[2]s,%[3]s"subject":%[1]s,"citations":[{"source_id":%[1]s,"text":"Ana keeps it.","weight":1}]}`,
			"/path-fingerprints": `{"run_id":%[2]s,%[3]s"project":%[1]s,"build":%[1]s,"route":["Start",%[1]s],"content":"Go on."}`,
		} {
			status, answer := ledgertest.Send(t, "POST", url+path, fmt.Sprintf(body, text, run, producer), "application/json")
			require.Contains(t, []int{http.StatusCreated, http.StatusUnprocessableEntity}, status, answer)
			if status != http.StatusCreated {
				t.Logf("%s %q: %s", path, name, answer)
			}
		}
	}
	l.Size = ledgertest.Head(t, url)
	stop()
	w := compareLedger(t, l)
	for _, q := range asClientsAsk(w.questions.all(), w.size, rand.New(rand.NewPCG(7, 7))) {
		finding, err := w.named(q, nil)
		require.NoError(t, err, q)
		assert.Nil(t, finding, "%v", finding)
	}
}
