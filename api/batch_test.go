package api

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/md5" // #nosec G501 -- fingerprints are MD5 by definition (spec: Content fingerprints)
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"colophon/api/call"
	"colophon/api/problem"
	"colophon/ledger/record"
)

func (s *service) batch(body string, headers ...string) answer {
	s.t.Helper()
	return s.do(http.MethodPost, "/batch", body, append([]string{"Content-Type", call.NDJSONMediaType}, headers...)...).want(http.StatusOK)
}

// lineAnswer decodes the answer to one batch line, which is either a receipt or a problem.
type lineAnswer struct {
	Seq     *uint64
	Status  int
	Line    int
	Detail  string
	Errors  []problem.ErrorDetail
	Receipt json.RawMessage
}

func (a answer) parsed() (list []lineAnswer) {
	a.t.Helper()
	for _, text := range a.lines() {
		var l lineAnswer
		require.NoError(a.t, json.Unmarshal(text, &l), "%s", text)
		list = append(list, l)
	}
	return list
}

func TestBatchAnswersLineForLine(t *testing.T) {
	s := start(t, func(c *Config) { c.MaxLineSize = 4096 })
	body := ipcLine("a", "1") +
		"{broken\n" +
		"\n" +
		ipcLine("b", strings.Repeat("x", 5000)) +
		`{"kind":"poem","record":{}}` + "\n" +
		`{"kind":"ipc_record","record":{"model":7}}` + "\n" +
		`{"kind":"ipc_record","record":` + claimedWrong + "}\n" +
		ipcLine("a", "1") +
		ipcLine("a", "2") +
		`{"kind":"ipc_record","idempotency_key":"k","record":` + ipcBody("a", "2") + "}\n" +
		"{\"kind\":\"ipc_record\",\"record\":\"\xff\"}\n" +
		strings.TrimSuffix(ipcLine("c", "last"), "\n")
	got := s.batch(body).parsed()
	var statuses []int
	for i, l := range got {
		statuses = append(statuses, l.Status)
		if l.Status != 0 {
			line := i + 1
			if i > 1 {
				line++ // the third line is empty: it is counted, but not answered
			}
			require.Equal(t, line, l.Line)
			require.NotEmpty(t, l.Detail)
		} else {
			require.NotNil(t, l.Seq)
		}
	}
	require.Equal(t, []int{0, 400, 413, 422, 422, 0, 0, 409, 0, 400, 0}, statuses)
	require.Equal(t, "/record/model", got[4].Errors[0].Pointer)
	require.Equal(t, *got[0].Seq, *got[6].Seq, "replayed")
	require.EqualValues(t, 6, s.size(), "ledger_created, a, mismatch, refusal, k, c")
}

// Batch lines can be state changes and notes, mixed with records, and each line can have its own
// idempotency key.
func TestVerbsAreLines(t *testing.T) {
	s := start(t)
	s.post("/ipc-records", ipcBody("", "o")).want(http.StatusCreated)
	s.post("/citation-sets", setBody).want(http.StatusCreated)
	const origin = `,"original_actor":"Ana Varga","timestamp":"2025-11-30T12:00:00Z"`
	stale := `{"kind":"record_state_changed","idempotency_key":"k","record":{"record_seq":1,"state":"stale","reason":"r"` + origin + `}}` + "\n"
	body := stale + ipcLine("", "p") +
		`{"kind":"note","record":{"record_seq":2,"topic":"review","text":"Good."` + origin + `}}` + "\n" +
		stale + strings.Replace(stale, "stale", "failed", 1) +
		`{"kind":"record_state_changed","record":{"record_seq":2,"state":"stale","reason":"r"}}` + "\n" +
		`{"kind":"note","record":{"record_seq":99,"topic":"review"}}` + "\n" +
		`{"kind":"note","record":{"record_seq":1,"topic":""}}` + "\n" +
		`{"kind":"source_revoked","record":{"source_id":"x"}}` + "\n"
	for i, asked := range []string{"", "?derive=true"} {
		a := s.do(http.MethodPost, "/batch"+asked, body, "Content-Type", call.NDJSONMediaType, "Prefer", "return=representation").want(http.StatusOK)
		var statuses []int
		for _, l := range a.parsed() {
			statuses = append(statuses, l.Status)
		}
		require.Equal(t, []int{0, 0, 0, 0, 409, 404, 404, 422, 422}, statuses)
		lines := a.lines()
		require.Equal(t, string(record.KindRecordStateChanged), s.verify(lines[0]).Kind)
		require.Equal(t, i > 0, s.verify(lines[0]).Replayed)
		require.True(t, s.verify(lines[3]).Replayed)
		noted := s.verify(lines[2])
		require.Equal(t, string(record.KindNote), noted.Kind)
		require.Contains(t, string(noted.Proof.Event), `"original_actor":"Ana Varga","record_seq":2,"text":"Good.","timestamp":"2025-11-30T12:00:00Z","topic":"review"`)
	}
	minimal := s.batch(stale)
	require.NotContains(t, string(minimal.body), "checkpoint")
	require.Equal(t, []string{"stale", ""}, s.statesOf(1, 2))
	s.audited()
	s.post("/freeze", "").want(http.StatusOK)
	for _, seq := range []string{"1", "99"} { // the answer must not reveal whether the record exists
		require.Equal(t, http.StatusForbidden, s.batch(`{"kind":"note","record":{"record_seq":` + seq + `,"topic":"step"}}` + "\n").parsed()[0].Status)
	}
}

// A batch line can validate a path that an earlier line of the same batch records.
func TestValidationsAreLines(t *testing.T) {
	s := start(t)
	const origin = `,"original_actor":"Ana Varga","timestamp":"2025-11-30T12:00:00Z"`
	path := func(build, content string) string {
		return `{"kind":"path_fingerprint","record":{"project":"p","route":["Start"],"build":"` + build + `","content":"` + content + `"}}` + "\n"
	}
	validate := func(more string) string {
		return `{"kind":"path_validated","idempotency_key":"` + strconv.Itoa(len(more)) + `","record":{"project":"p","path_id":"a6122a65","validated":true` + more + `}}` + "\n"
	}
	body := validate(``) + path("1", "A door.") + validate(`,"reason":"read"`+origin) + path("2", "A wall.") + path("2", "A gate.") +
		validate(`,"build":"2","content_fingerprint":"`+fingerprintOf("A gate.")+`"`) + validate(`, "build":"2","content_fingerprint":"00000000"`) +
		validate(`,"build":"3"`) + validate(`,"reason":"read"`+origin) + validate(`,"reason":"Read"`+origin) + `{"kind":"path_validated","record":{"validated":true}}` + "\n"
	answer := s.do(http.MethodPost, "/batch", body, "Content-Type", call.NDJSONMediaType, "Prefer", "return=representation").want(http.StatusOK)
	var statuses []int
	for _, l := range answer.parsed() {
		statuses = append(statuses, l.Status)
	}
	require.Equal(t, []int{404, 0, 0, 0, 0, 0, 409, 404, 0, 409, 422}, statuses)
	validated := s.verify(answer.lines()[2])
	require.Equal(t, string(record.KindPathValidated), validated.Kind)
	require.Contains(t, string(validated.Proof.Event), `"build":"1","content_fingerprint":"`+fingerprintOf("A door.")+`"`)
	require.Contains(t, string(validated.Proof.Event), `"original_actor":"Ana Varga","path_id":"a6122a65","project":"p","reason":"read","record_seq":1,"timestamp":"2025-11-30T12:00:00Z"`)
	require.True(t, s.verify(answer.lines()[8]).Replayed)
	for build, content := range map[string]string{"1": "A door.", "2": "A gate."} {
		require.Regexp(t, `"validated":true,.*"content_fingerprint":"`+fingerprintOf(content)+`"`, string(s.get("/paths/p?build="+build).want(http.StatusOK).body))
	}
	s.audited()
	s.post("/freeze", "").want(http.StatusOK)
	for _, more := range []string{``, `,"build":"3"`} {
		require.Equal(t, http.StatusForbidden, s.batch(validate(more)).parsed()[0].Status)
	}
}

// fingerprintOf returns the fingerprint of a text that normalisation does not change.
func fingerprintOf(text string) string {
	sum := md5.Sum([]byte(text)) // #nosec G401 -- by definition (spec: Content fingerprints)
	return hex.EncodeToString(sum[:4])
}

func TestBatchRefusesMismatchesWhenAsked(t *testing.T) {
	s := start(t)
	got := s.do(http.MethodPost, "/batch?on_mismatch=reject", `{"kind":"ipc_record","record":`+claimedWrong+"}\n"+ipcLine("a", "1"),
		"Content-Type", call.NDJSONMediaType).want(http.StatusOK).parsed()
	require.Equal(t, 422, got[0].Status)
	require.NotEmpty(t, got[0].Receipt)
	require.NotNil(t, got[1].Seq)
}

func TestBatchWithWholeReceipts(t *testing.T) {
	s := start(t)
	for _, text := range s.batch(ipcLine("a", "1")+ipcLine("b", "2"), "Prefer", "return=representation").lines() {
		s.verify(text)
	}
}

func TestBatchKeepsOrder(t *testing.T) {
	s := start(t)
	var body strings.Builder
	for i := range 5000 {
		body.WriteString(ipcLine(fmt.Sprint(i), "x"))
	}
	for i, l := range s.batch(body.String()).parsed() {
		require.EqualValues(t, i+1, *l.Seq)
	}
}

func TestCompressedBatches(t *testing.T) {
	s := start(t)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, err := z.Write([]byte(ipcLine("a", "1")))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	require.Len(t, s.batch(zipped.String(), "Content-Encoding", "gzip").parsed(), 1)
	encoder, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	require.Len(t, s.batch(string(encoder.EncodeAll([]byte(ipcLine("b", "2")), nil)), "Content-Encoding", "zstd").parsed(), 1)
	require.EqualValues(t, 3, s.size())
	s.do(http.MethodPost, "/batch", "x", "Content-Type", call.NDJSONMediaType, "Content-Encoding", "br").problem(http.StatusUnsupportedMediaType)
	s.do(http.MethodPost, "/batch", "x", "Content-Type", "application/json").problem(http.StatusUnsupportedMediaType)
	s.do(http.MethodPost, "/batch", "x", "Content-Type", call.NDJSONMediaType, "Idempotency-Key", "k").problem(http.StatusBadRequest)
}

func TestBrokenCompressionLosesNoGoodLine(t *testing.T) {
	s := start(t)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	for i := range 2000 {
		_, err := z.Write([]byte(ipcLine(fmt.Sprint(i), fmt.Sprint(i))))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	got := s.batch(zipped.String()[:zipped.Len()/2], "Content-Encoding", "gzip").parsed()
	last := got[len(got)-1]
	require.Equal(t, 400, last.Status)
	require.Equal(t, len(got), last.Line)
	require.EqualValues(t, len(got)-1, s.size()-1)
	require.Greater(t, len(got), 100)
	require.Equal(t, 400, s.batch("no gzip", "Content-Encoding", "gzip").parsed()[0].Status)
	require.Empty(t, s.batch("").body)
}

// If a connection drops, the server does not record an incomplete last line, which might be the
// beginning of a longer line.
func TestDroppedConnection(t *testing.T) {
	s := start(t)
	connection, err := net.Dial("tcp", s.http.Listener.Addr().String())
	require.NoError(t, err)
	_, err = fmt.Fprintf(connection, "POST /v1/ledgers/default/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: 100000\r\n\r\n%s%s",
		call.NDJSONMediaType, ipcLine("a", "1"), strings.TrimSuffix(ipcLine("b", "2"), "\n"))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.size() == 2 }, patience, time.Millisecond)
	require.NoError(t, connection.Close())
	s.http.Close() // waits until the request has ended
	require.EqualValues(t, 2, s.size())
}

// If the spool cannot store the results, the server cuts the response off, so that it does not look
// complete.
func TestSpoolThatFails(t *testing.T) {
	s := start(t, func(c *Config) { c.SpoolDir, c.SpoolBufferBytes = "/nonexistent", 1 })
	request, err := http.NewRequest(http.MethodPost, s.url+"/batch", strings.NewReader(ipcLine("a", "1")))
	require.NoError(t, err)
	request.Header.Set("Content-Type", call.NDJSONMediaType)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	_, err = io.ReadAll(response.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.EqualValues(t, 2, s.size(), "the record must exist, so that the same line is replayed")
}

func TestProblemsOfABatchKeepEventsByteForByte(t *testing.T) {
	s := start(t)
	a := s.batch(ipcLine("<&>", "1") + ipcLine("<&>", "2"))
	require.Contains(t, string(a.lines()[1]), `"run_id":"<&>"`)
	s.verify(a.parsed()[1].Receipt)
}

// The server answers a line while the client is still sending the body.
func TestBatchIsFullDuplex(t *testing.T) {
	s := start(t)
	r, w := io.Pipe()
	request, err := http.NewRequest(http.MethodPost, s.url+"/batch", r)
	require.NoError(t, err)
	request.Header.Set("Content-Type", call.NDJSONMediaType)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	answers := bufio.NewReader(response.Body)
	for i := range 20 {
		_, err := io.WriteString(w, ipcLine(fmt.Sprint(i), "x"))
		require.NoError(t, err)
		text, err := answers.ReadString('\n')
		require.NoError(t, err)
		require.Contains(t, text, fmt.Sprintf(`"seq":%d,`, i+1))
	}
	require.NoError(t, w.Close())
	_, err = answers.ReadByte()
	require.ErrorIs(t, err, io.EOF)
}

// A client that sends everything before it reads gets all answers. Results that it does not
// read yet wait in a file, which is removed afterwards.
func TestClientThatReadsLast(t *testing.T) {
	spoolDir := t.TempDir()
	s := start(t, func(c *Config) { c.SpoolDir, c.SpoolBufferBytes = spoolDir, 64<<10 })
	connection, err := net.Dial("tcp", s.http.Listener.Addr().String())
	require.NoError(t, err)
	defer connection.Close()
	const lines = 100_000
	_, err = fmt.Fprintf(connection, "POST /v1/ledgers/default/batch HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n", call.NDJSONMediaType)
	require.NoError(t, err)
	out := bufio.NewWriterSize(connection, 64<<10)
	for i := range lines {
		line := ipcLine("", "x")
		if i%2 == 1 {
			line = "{bad}\n"
		}
		_, err = fmt.Fprintf(out, "%x\r\n%s\r\n", len(line), line)
		require.NoError(t, err)
	}
	_, err = io.WriteString(out, "0\r\n\r\n")
	require.NoError(t, err)
	require.NoError(t, out.Flush())
	require.Eventually(t, func() bool { return s.size() == 1+lines/2 }, patience, 10*time.Millisecond)

	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	require.NoError(t, err)
	answered := 0
	for scanner := bufio.NewScanner(response.Body); scanner.Scan(); answered++ {
		if answered%2 == 1 {
			require.Contains(t, scanner.Text(), `"status":400`)
		}
	}
	require.Equal(t, lines, answered)
	require.Eventually(t, func() bool {
		left, err := os.ReadDir(spoolDir)
		return err == nil && len(left) == 0
	}, patience, time.Millisecond)
}

// All batches share the parsing slots. Long lines use the slots for heavy work instead, so that
// long lines and short lines do not block each other.
func TestBatchesShareTheCores(t *testing.T) {
	s := start(t)
	for range cap(s.server().shared.Limiter.ParseSlots) {
		s.server().shared.Limiter.ParseSlots <- struct{}{}
	}
	answered := make(chan answer, 1)
	go func() { answered <- s.batch(ipcLine("a", "short")) }()
	require.Len(t, s.batch(ipcLine("b", strings.Repeat("long", 256<<10))).parsed(), 1)
	require.Empty(t, answered)
	<-s.server().shared.Limiter.ParseSlots
	require.Len(t, (<-answered).parsed(), 1)
	for range cap(s.server().shared.Limiter.ParseSlots) - 1 {
		<-s.server().shared.Limiter.ParseSlots
	}

	for range cap(s.server().shared.Limiter.HeavyWorkLimiter.Slots) {
		s.server().shared.Limiter.HeavyWorkLimiter.Slots <- struct{}{}
	}
	go func() { answered <- s.batch(ipcLine("c", strings.Repeat("long", 256<<10))) }()
	require.Len(t, s.batch(ipcLine("d", "short")).parsed(), 1)
	require.Empty(t, answered)
	<-s.server().shared.Limiter.HeavyWorkLimiter.Slots
	require.Len(t, (<-answered).parsed(), 1)
}
