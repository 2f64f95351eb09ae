package api

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/api/access"
	"colophon/api/call"
	"colophon/api/limits"
	"colophon/ledger"
)

// sent is one server-sent event, or a comment.
type sent struct {
	name, id, data, retry string
	comment               bool
}

// listener is a client that follows events.
type listener struct {
	t     testing.TB
	body  io.ReadCloser
	lines *bufio.Reader
	ctx   context.Context // context of the request
	leave func()          // cancels ctx
}

// listen starts following the ledger's events. The server must accept the request.
func (s *service) listen(query string, headers ...string) *listener {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	s.t.Cleanup(cancel)
	return s.listenUntil(ctx, query, headers...)
}

func (s *service) listenUntil(ctx context.Context, query string, headers ...string) *listener {
	s.t.Helper()
	ctx, leave := context.WithCancel(ctx)
	s.t.Cleanup(leave)
	defer time.AfterFunc(patience, leave).Stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/events"+query, nil)
	require.NoError(s.t, err)
	r.Header.Set("Accept", eventStream)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := s.http.Client().Do(r)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = response.Body.Close() })
	require.Equal(s.t, http.StatusOK, response.StatusCode)
	require.Equal(s.t, eventStream, response.Header.Get("Content-Type"))
	l := &listener{s.t, response.Body, bufio.NewReader(response.Body), ctx, leave}
	first := l.next()
	require.True(s.t, first.comment)
	require.Equal(s.t, "2000", first.retry)
	return l
}

// next reads one event or comment.
func (l *listener) next() (e sent) {
	l.t.Helper()
	defer time.AfterFunc(patience, l.leave).Stop()
	for {
		line, err := l.lines.ReadString('\n')
		require.NoError(l.t, err)
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			return e
		case name == "":
			e.comment = true
		case name == "event":
			e.name = value
		case name == "id":
			e.id = value
		case name == "data":
			e.data = value
		case name == "retry":
			e.retry = value
		default:
			require.Fail(l.t, "not server-sent events", "%q", line)
		}
	}
}

// events reads count events of the log, skipping heartbeats.
func (l *listener) events(count int) (list []sent) {
	l.t.Helper()
	defer time.AfterFunc(patience, l.leave).Stop()
	for len(list) < count {
		if e := l.next(); !e.comment {
			require.Empty(l.t, e.name, "%s", e.data)
			list = append(list, e)
		}
	}
	return list
}

// last reads the event that explains why the stream ends.
func (l *listener) last() sent {
	l.t.Helper()
	defer time.AfterFunc(patience, l.leave).Stop()
	for {
		e := l.next()
		if e.comment {
			continue
		}
		require.NotEmpty(l.t, e.name)
		require.Empty(l.t, e.id)
		_, err := l.lines.ReadByte()
		require.ErrorIs(l.t, err, io.EOF)
		return e
	}
}

// requireEvents requires that list matches the lines that /events returns, beginning at seq from.
func (s *service) requireEvents(from int, list []sent) {
	s.t.Helper()
	lines := s.get(fmt.Sprintf("/events?from=%d&limit=%d", from, max(1, len(list)))).want(http.StatusOK).lines()
	require.GreaterOrEqual(s.t, len(lines), len(list))
	for i, e := range list {
		require.Equal(s.t, strconv.Itoa(from+i), e.id)
		require.Equal(s.t, string(lines[i]), e.data)
	}
}

func TestFollow(t *testing.T) {
	s := start(t)
	for i := range 5 {
		s.post("/ipc-records", ipcBody("<&>\u2028"+strconv.Itoa(i), "x")).want(http.StatusCreated)
	}
	head := s.listen("")
	s.requireEvents(2, s.listen("?from=2").events(4))
	s.requireEvents(0, s.listen("?from=0").events(6))
	s.requireEvents(4, s.listen("", "Last-Event-ID", "3").events(2))
	s.requireEvents(5, s.listen("?from=1", "Last-Event-ID", "4").events(1))
	end := s.listen("", "Last-Event-ID", "5")
	s.post("/ipc-records", ipcBody("live", "x")).want(http.StatusCreated)
	s.requireEvents(6, head.events(1))
	s.requireEvents(6, end.events(1))
	s.post("/ipc-records", ipcBody("more", "x")).want(http.StatusCreated)
	s.requireEvents(7, head.events(1))
	require.Eventually(t, func() bool { return s.server().shared.Limiter.FollowerSlots.InUse() == 6 }, patience, time.Millisecond)
	s.metrics().require(t, 6, "colophon_followers")
}

func TestFollowRefusals(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience) // an accepted stream does not end by itself
	defer cancel()
	follow := func(query string, headers ...string) answer {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/events"+query, nil)
		require.NoError(t, err)
		r.Header.Set("Accept", eventStream)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		return s.send(r)
	}
	for query, want := range map[string]string{
		"?limit=3": "unknown query parameter", "?from=x": "must be a number", "?from=2": "is beyond the head: the ledger has 1 events",
	} {
		require.Contains(t, follow(query).problem(http.StatusBadRequest).Detail, want)
	}
	for last, want := range map[string]string{
		"x": "must be a number", "-1": "must be a number", "01": "must be a number", "1": "is beyond the head: the ledger has 1 events, with ids up to 0", "18446744073709551615": "is beyond the head",
	} {
		require.Contains(t, follow("", "Last-Event-ID", last).problem(http.StatusBadRequest).Detail, want, last)
	}
	s.do(http.MethodGet, s.http.URL+"/v1/ledgers/none/events", "", "Accept", eventStream).problem(http.StatusNotFound)
	head, err := http.NewRequest(http.MethodHead, s.url+"/events", nil)
	require.NoError(t, err)
	head.Header.Set("Accept", eventStream)
	require.Equal(t, eventStream, s.send(head).want(http.StatusOK).header.Get("Content-Type"))
	require.Zero(t, s.server().shared.Limiter.FollowerSlots.InUse())
}

// Followers that start at any event and at any time, even during writes, get every event exactly
// once and in order.
func TestFollowersMissNothing(t *testing.T) {
	s := start(t, func(c *Config) { c.ServerLimits.HeartbeatInterval = time.Millisecond })
	const writers, each, followers = 4, 50, 20
	var writing, following sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				s.post("/ipc-records", ipcBody(fmt.Sprint(w, "/", i), strings.Repeat("x", i))).want(http.StatusCreated)
			}
		})
	}
	got := make([][]sent, followers)
	for f := range followers {
		from := min(f*3, int(s.size()))
		l := s.listen("?from=" + strconv.Itoa(from))
		following.Go(func() { got[f] = l.events(1 + writers*each - from) })
	}
	writing.Wait()
	following.Wait()
	for _, list := range got {
		from, err := strconv.Atoi(list[0].id)
		require.NoError(t, err)
		s.requireEvents(from, list)
	}
}

func TestHeartbeats(t *testing.T) {
	s := start(t, func(c *Config) { c.ServerLimits.HeartbeatInterval = time.Millisecond })
	l := s.listen("")
	for range 10 {
		require.Equal(t, sent{comment: true}, l.next())
	}
}

// A stream ends at once when the server shuts down or the ledger is frozen, and tells the
// client why.
func TestStreamsSayWhyTheyEnd(t *testing.T) {
	s := start(t)
	s.post("/ipc-records", ipcBody("", "x")).want(http.StatusCreated)
	early := s.listen("")
	s.post("/freeze", "").want(http.StatusOK)
	require.Equal(t, sent{name: "frozen", retry: "86400000", data: `{"detail":"the ledger is frozen: no events follow the first 2","next":2}`}, early.last())
	late := s.listen("?from=0")
	s.requireEvents(0, late.events(2))
	require.Equal(t, "frozen", late.last().name)

	open, err := s.host.Create(t.Context(), ledger.CreateOptions{Name: "open"})
	require.NoError(t, err)
	s.url = s.http.URL + "/v1/ledgers/" + open.Name()
	idle := s.listen("?from=0")
	idle.events(1)
	require.NoError(t, s.http.Config.Shutdown(t.Context()))
	end := idle.last()
	require.Equal(t, "closing", end.name)
	require.Equal(t, "2000", end.retry)
	require.Contains(t, end.data, `"next":1`)
}

// After a token is revoked, its follower is disconnected, and the next line of its batch is
// refused.
func TestRevocationEndsStreamsAndBatches(t *testing.T) {
	store := access.TokenStore{Dir: filepath.Join(t.TempDir(), "access"), Now: time.Now}
	made, err := store.Create(access.TokenSpec{Name: "service", Grants: []access.Grant{{Ledgers: []string{ledger.DefaultName}, Scopes: access.ScopeWrite | access.ScopeLog}}})
	require.NoError(t, err)
	who, err := access.Open(access.Config{Dir: store.Dir})
	require.NoError(t, err)
	t.Cleanup(who.Close)
	s := start(t, func(c *Config) { c.Authenticator, c.ServerLimits.HeartbeatInterval = who, time.Millisecond })
	body, send := io.Pipe()
	defer send.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/batch", body)
	require.NoError(t, err)
	request.Header.Set("Content-Type", call.NDJSONMediaType)
	request.Header.Set("Authorization", "Bearer "+made.Text)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	answers := bufio.NewReader(response.Body)
	_, err = io.WriteString(send, ipcLine("", "1"))
	require.NoError(t, err)
	line, err := answers.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, `"seq":1`)
	// The follower starts after the batch, so by the time it is refused, the batch has also
	// rechecked its access.
	l := s.listen("?from=0", "Authorization", "Bearer "+made.Text)
	l.events(2)

	_, err = store.Revoke("service")
	require.NoError(t, err)
	require.Equal(t, "refused", l.last().name) // takes about a second
	go func() { _, _ = io.WriteString(send, ipcLine("", "2")+ipcLine("", "3")) }()
	line, err = answers.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, `"status":401`)
	require.Contains(t, line, `"line":2`)
	require.EqualValues(t, 2, s.size())
}

// A stream also ends if its token is still valid but has lost the required scope.
func TestLostScopesEndStreamsAndBatches(t *testing.T) {
	store := access.TokenStore{Dir: filepath.Join(t.TempDir(), "access"), Now: time.Now}
	made, err := store.Create(access.TokenSpec{Name: "service", Grants: []access.Grant{{Ledgers: []string{ledger.DefaultName}, Scopes: access.ScopeLog}}})
	require.NoError(t, err)
	who, err := access.Open(access.Config{Dir: store.Dir})
	require.NoError(t, err)
	t.Cleanup(who.Close)
	s := start(t, func(c *Config) { c.Authenticator, c.ServerLimits.HeartbeatInterval = who, time.Millisecond })
	l := s.listen("?from=0", "Authorization", "Bearer "+made.Text)
	l.events(1)
	file := filepath.Join(store.Dir, "tokens.json")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	changed := strings.Replace(string(text), `"log"`, `"content"`, 1)
	require.NotEqual(t, string(text), changed)
	require.NoError(t, os.WriteFile(file+".new", []byte(changed), 0o600))
	require.NoError(t, os.Rename(file+".new", file))
	end := l.last()
	require.Equal(t, "refused", end.name)
	require.Contains(t, end.data, "needs the scope")
}

func TestFollowersAtOnce(t *testing.T) {
	s := start(t, trustingProxies(func(l *limits.ServerLimits) { l.MaxFollowers = 4 }))
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	s.listenUntil(ctx, "", "X-Forwarded-For", "192.0.2.1")
	s.listen("", "X-Forwarded-For", "192.0.2.1")
	refused := func(address string) {
		a := s.get("/events", "Accept", eventStream, "X-Forwarded-For", address)
		a.problem(http.StatusServiceUnavailable)
		require.NotEmpty(t, a.header.Get("Retry-After"))
	}
	refused("192.0.2.1")
	s.listen("", "X-Forwarded-For", "192.0.2.2")
	refused("192.0.2.2")
	s.listen("", "X-Forwarded-For", "192.0.2.3")
	refused("192.0.2.4")
	require.EqualValues(t, 3, s.refusals(limits.ReasonFollowers))
	leave()
	require.Eventually(t, func() bool { return s.server().shared.Limiter.FollowerSlots.InUse() == 3 }, patience, time.Millisecond)
	s.listen("", "X-Forwarded-For", "192.0.2.4")
}

// wide returns a batch line of about 100 KB.
func wide() string {
	chunk := `{"chunk_hash":"sha256:` + strings.Repeat("0", 64) + `","source_id":"s","weight":1},`
	return `{"kind":"citation_set","record":{"subject":"s","citations":[` + strings.TrimSuffix(strings.Repeat(chunk, 350), ",") + "]}}\n"
}

// A follower that does not read is disconnected, and delays neither other followers nor
// writers. A follower that reconnects each time gets every event.
func TestSlowFollowerIsDropped(t *testing.T) {
	s := start(t, func(c *Config) { c.ServerLimits.WriteTimeout, c.ServerLimits.FollowRate = 4*soon, 1<<30 })
	deaf := s.dial()
	deaf.say("GET {ledger}/events?from=0 HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
	const events = 200 // more than the socket buffers hold
	s.batch(strings.Repeat(wide(), events))
	require.Eventually(t, func() bool { return s.refusals(limits.ReasonSlowReader) >= 1 }, patience, time.Millisecond)
	deaf.ended()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for next := 0; next < 1+events; {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/events?from="+strconv.Itoa(next), nil)
		require.NoError(t, err)
		r.Header.Set("Accept", eventStream)
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		for lines := bufio.NewReader(response.Body); next < 1+events; {
			line, err := lines.ReadString('\n')
			if err != nil {
				break
			}
			if line == "id: "+strconv.Itoa(next)+"\n" {
				next++
			}
		}
		require.NoError(t, response.Body.Close())
		require.NoError(t, ctx.Err())
	}
	s.quiet()
}

// A follower that has used up its share of the rate limit gets heartbeats but no events until its
// next turn.
func TestFollowersWaitForTheirTurn(t *testing.T) {
	s := start(t, func(c *Config) { c.ServerLimits.FollowRate, c.ServerLimits.HeartbeatInterval = 1, time.Millisecond })
	const events = 20 // more than the limiter's burst allows
	s.batch(strings.Repeat(wide(), events))
	l := s.listen("?from=0")
	sent, beats := 0, 0
	for beats < 20 || sent < 2 {
		if e := l.next(); e.comment {
			beats++
		} else {
			sent, beats = sent+1, 0
		}
	}
	require.Less(t, sent, events)
}

// A stream is cut off when it reaches an event that the database has lost.
func TestFollowDamage(t *testing.T) {
	s := start(t)
	s.batch(strings.Repeat(ipcLine("", "x"), 40))
	tamper, err := s.database.Tamperer(ledger.DefaultName)
	require.NoError(t, err)
	require.NoError(t, tamper.DeleteEntry(20))
	l := s.listen("?from=30")
	l.events(11)
	broken := s.listen("?from=0")
	_, err = io.ReadAll(broken.lines)
	require.Error(t, err)
}

// FollowerLimiter limits the combined rate of all followers, so the delays grow as events are sent.
// The test allows them to shrink by up to a second, because time passes while it runs.
func TestFollowPace(t *testing.T) {
	const rate, bytes = 1 << 20, 64 << 10
	p := limits.NewFollowerLimiter(rate)
	var last time.Duration
	for i := range 1000 {
		wait := p.Delay(bytes)
		require.GreaterOrEqual(t, wait, last-time.Second)
		last = wait
		free := p.Limiter.Burst()/bytes + rate/bytes // the burst, plus what the rate allows in one second
		if i > free {
			require.Positive(t, wait)
		}
	}
	require.InDelta(t, 1000*bytes/rate, last.Seconds(), 2)
}
