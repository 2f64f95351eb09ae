package replay

import (
	"context"
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

	"colophon/proofs/monitor/fetch"
)

// transport is a function that implements http.RoundTripper.
type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// When askAll returns, no question is in progress, so the caller can close the reference server.
func TestNoQuestionOutlivesTheAuditor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asking atomic.Int64
		slow, err := fetch.New(fetch.Server{URL: "http://server.invalid", Transport: transport(func(r *http.Request) (*http.Response, error) {
			asking.Add(1)
			defer asking.Add(-1)
			<-r.Context().Done()
			if strings.HasSuffix(r.URL.Path, "/later") {
				time.Sleep(time.Second) // fake time: the request ends one second after it is canceled
			}
			return nil, r.Context().Err()
		})}, "", time.Hour, 4)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			synctest.Wait()
			assert.Equal(t, int64(4), asking.Load(), "the limit of concurrent questions is used")
			cancel()
		}()
		c := newComparer(slow, referenceServer{}, 2)
		questions := append([]question{{path: "/first", values: url.Values{}, form: indexForm}}, slices.Repeat([]question{{path: "/later", values: url.Values{}, form: indexForm}}, 9)...)
		c.askAll(ctx, questions, 4, func(_ int, r comparison) bool {
			require.ErrorIs(t, r.err, context.Canceled)
			return false
		})
		require.Zero(t, asking.Load())
	})
}
