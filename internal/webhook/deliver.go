package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

const (
	attemptTime = 30 * time.Second // timeout of one delivery attempt
	firstPause  = time.Second      // pause after the first failure; each further failure doubles it
	longestWait = 15 * time.Minute // longest pause between two attempts
)

// sign returns the webhook-signature header of a message (Standard Webhooks, symmetric signatures).
func sign(secret []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s.%s.", id, timestamp)
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// newClient returns a client that does not follow redirects, so that messages go only to the
// address that the operator configured.
func newClient() *http.Client {
	return &http.Client{
		Timeout:       attemptTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// post makes one attempt to deliver a message. wait is the pause that the receiver requested with
// Retry-After, or 0.
func (w *worker) post(ctx context.Context, m *Message, body []byte) (wait time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.hook.URL, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "colophon")
	r.Header.Set("webhook-id", m.id)
	r.Header.Set("webhook-timestamp", timestamp)
	r.Header.Set("webhook-signature", sign(w.hook.secret, m.id, timestamp, body))
	response, err := w.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // so that the connection can be reused
	if response.StatusCode/100 == 2 {
		return 0, nil
	}
	if seconds, err := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 31); err == nil {
		wait = min(time.Duration(seconds)*time.Second, longestWait)
	}
	return wait, fmt.Errorf("the receiver responded with %s", response.Status)
}

// deliver sends a message, and retries until the receiver accepts it. It returns an error only if
// the message cannot be encoded or if ctx is done.
func (w *worker) deliver(ctx context.Context, m *Message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	for failures := 0; ; failures++ {
		wait, err := w.post(ctx, m, body)
		if err == nil {
			w.sent.Add(1)
			w.failing.Store(false)
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w.failed.Add(1)
		if !w.failing.Swap(true) {
			w.log.Warn("cannot deliver a webhook message; retrying until the receiver accepts it", "id", m.id, "error", err)
		}
		pause := min(longestWait, w.pause<<min(failures, 20))
		pause = max(wait, pause/2+rand.N(pause/2+1)) // #nosec G404 -- only spreads retries
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
