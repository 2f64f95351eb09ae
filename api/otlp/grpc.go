package otlp

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"colophon/api/problem"
	"colophon/ledger"
)

// LedgerHeader is the header in which a gRPC call names its ledger, because the path of a gRPC
// call is fixed. Without this header, the call is for the ledger "default".
const LedgerHeader = "Colophon-Ledger"

// GRPCHandler serves OTLP over gRPC. It converts each call to the equivalent HTTP request, so that
// access control, limits, and forwarding to other servers are the same.
//
// GRPCHandler does not use the gRPC library, which would read a whole message before the server
// could count it against its memory budget. A call has one message in each direction, so little of
// the protocol is needed.
type GRPCHandler struct {
	// Next handles the equivalent HTTP requests.
	Next http.Handler
	// TakeSlot is called before the handler waits for a message, so that the number of calls that wait is
	// limited. It returns the request to serve, and a function that ends the call. If it returns an error, the
	// call is refused.
	TakeSlot func(*http.Request) (held *http.Request, release func(), err error)
	// MessageTimeout is how long the first bytes of a message can take to arrive.
	MessageTimeout time.Duration
}

// prefixBytes is the length of the prefix of a gRPC message, which consists of a compression flag
// and the length of the message.
const prefixBytes = 5

// ServeHTTP answers one call.
func (g GRPCHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 2 || r.Method != http.MethodPost || !isGRPC(r.Header.Get(echo.HeaderContentType)) {
		w.Header().Set(echo.HeaderContentType, "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusUnsupportedMediaType)
		_, _ = io.WriteString(w, "this address serves OTLP over gRPC; send OTLP over HTTP to the address of the API\n")
		return
	}
	held, release, err := g.TakeSlot(r)
	if err != nil {
		p, _ := problem.FromError(err)
		(&failure{codeOf(p.Status), p.Detail, appendStatus(nil, p)}).send(w)
		return
	}
	defer release()
	request, refusal := g.request(w, held)
	if refusal != nil {
		refusal.send(w)
		return
	}
	answer := &recorder{ResponseWriter: w, header: make(http.Header)}
	g.Next.ServeHTTP(answer, request)
	if answer.status == http.StatusOK {
		sendMessage(w, answer.body)
		return
	}
	failureOf(answer).send(w)
}

func isGRPC(contentType string) bool {
	return contentType == "application/grpc" || contentType == "application/grpc+proto"
}

// request returns the HTTP request that is equivalent to a call.
func (g GRPCHandler) request(w http.ResponseWriter, r *http.Request) (*http.Request, *failure) {
	var signal *Signal
	for _, s := range signals {
		if r.URL.Path == s.service {
			signal = s
		}
	}
	if signal == nil {
		return nil, &failure{code: codeUnimplemented, message: "this server implements only the Export methods of OTLP's TraceService and LogsService"}
	}
	name := r.Header.Get(LedgerHeader)
	if name == "" {
		name = ledger.DefaultName
	}
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return nil, &failure{code: codeInvalidArgument, message: "the value of the metadata key \"colophon-ledger\" is not a ledger name"}
	}
	// The server in a test might not support deadlines.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(g.MessageTimeout))
	var prefix [prefixBytes]byte
	switch _, err := io.ReadFull(r.Body, prefix[:]); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, &failure{code: codeInvalidArgument, message: "the call has no request message"}
	case err != nil: // usually a deadline; the exporter must send the call again
		p := problem.New(http.StatusServiceUnavailable, "the message did not begin within %s; send it again", g.MessageTimeout)
		return nil, &failure{codeOf(p.Status), p.Detail, appendStatus(nil, p)}
	}
	size := int64(binary.BigEndian.Uint32(prefix[1:]))
	out := r.Clone(r.Context())
	out.URL.Path, out.URL.RawPath, out.URL.RawQuery = "/v1/ledgers/"+name+signal.path, "", ""
	out.RequestURI = out.URL.Path
	out.Header.Set(echo.HeaderContentType, ProtobufMediaType)
	out.Header.Del(echo.HeaderContentEncoding)
	for header := range out.Header {
		if strings.HasPrefix(header, "Grpc-") || header == "Te" || header == LedgerHeader {
			out.Header.Del(header)
		}
	}
	switch encoding := r.Header.Get("Grpc-Encoding"); {
	case prefix[0] == 0:
	case prefix[0] == 1 && encoding == "gzip":
		out.Header.Set(echo.HeaderContentEncoding, encoding)
	default:
		return nil, &failure{code: codeUnimplemented, message: fmt.Sprintf("unsupported compression %.100q; use gzip", encoding)}
	}
	out.ContentLength, out.TransferEncoding = size, nil
	out.Body = &message{ReadCloser: r.Body, left: size}
	return out, nil
}

// message reads the only message of a call.
type message struct {
	io.ReadCloser
	left int64 // number of bytes that have not been read yet
}

// Read implements io.Reader. If the body ends before the message, Read returns
// io.ErrUnexpectedEOF.
func (m *message) Read(b []byte) (int, error) {
	if m.left == 0 {
		return 0, io.EOF
	}
	n, err := m.ReadCloser.Read(b[:min(int64(len(b)), m.left)])
	if m.left -= int64(n); err == io.EOF && m.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// recorder is an http.ResponseWriter that keeps the response in memory. Through Unwrap,
// http.ResponseController can still set deadlines on the connection.
type recorder struct {
	http.ResponseWriter
	header http.Header
	status int
	body   []byte
}

// maxAnswer limits the response body that is kept, in bytes. OTLP responses are far shorter.
const maxAnswer = 64 << 10

var errLongAnswer = errors.New("the response is too long for a gRPC call")

// Header implements http.ResponseWriter.
func (a *recorder) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *recorder) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK {
		a.status = status
	}
}

// Write implements io.Writer.
func (a *recorder) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if len(a.body)+len(b) > maxAnswer {
		return 0, errLongAnswer
	}
	a.body = append(a.body, b...)
	return len(b), nil
}

// FlushError does nothing, so that a flush does not send the response early.
func (a *recorder) FlushError() error { return nil }

// Unwrap returns the underlying ResponseWriter. It is called by http.ResponseController.
func (a *recorder) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// sendMessage sends the response to a call that succeeded.
func sendMessage(w http.ResponseWriter, body []byte) {
	h := w.Header()
	h.Set(echo.HeaderContentType, "application/grpc")
	w.WriteHeader(http.StatusOK)
	frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body)))
	_, _ = w.Write(append(frame, body...)) // an error means that the client has disconnected
	h.Set(http.TrailerPrefix+"Grpc-Status", "0")
}

// failure is the response to a call that failed.
type failure struct {
	code    int
	message string
	details []byte // encoded google.rpc.Status; nil if there is none
}

// failureOf converts an HTTP error response to a failure.
func failureOf(a *recorder) *failure {
	if code, message, ok := readStatus(a.body); ok && a.header.Get(echo.HeaderContentType) == ProtobufMediaType {
		return &failure{code, message, a.body}
	}
	return &failure{code: codeOf(a.status), message: fmt.Sprintf("the server answered with HTTP status %d", a.status)}
}

func (f *failure) send(w http.ResponseWriter) {
	h := w.Header()
	h.Set(echo.HeaderContentType, "application/grpc")
	w.WriteHeader(http.StatusOK)
	h.Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(f.code))
	h.Set(http.TrailerPrefix+"Grpc-Message", percentEncoded(f.message))
	if f.details != nil {
		h.Set(http.TrailerPrefix+"Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(f.details))
	}
}

// percentEncoded encodes text for the Grpc-Message header. It encodes the percent sign and all
// bytes that are not printable ASCII.
func percentEncoded(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c >= ' ' && c <= '~' && c != '%' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
