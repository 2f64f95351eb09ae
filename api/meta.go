package api

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"runtime"

	"github.com/labstack/echo/v4"

	"colophon"
	"colophon/api/reference"
)

// hexHash is a hash that JSON shows in hexadecimal.
type hexHash [32]byte

// MarshalText returns 64 lower-case digits.
func (h hexHash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// encodeJSON writes a value as one line. It does not escape HTML, so that event bodies come
// out byte for byte.
func encodeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

func answerJSON(c echo.Context, status int, value any) error {
	answer := newReply()
	defer answer.release()
	if err := encodeJSON(answer, value); err != nil {
		return err
	}
	return answer.send(c, status, echo.MIMEApplicationJSON)
}

// home redirects to the documentation.
func (s *Server) home(c echo.Context) error { return c.Redirect(http.StatusFound, "/docs") }

// healthz reports that the process answers. The text names a fault of the index.
func (s *Server) healthz(c echo.Context) error {
	detail, _ := s.indexHealth()
	return answerHealth(c, "ok", detail)
}

// readyz reports that the server takes writes and answers queries. It answers 503 while disk
// space is short, a ledger cannot sign, or an index has stopped.
func (s *Server) readyz(c echo.Context) error {
	for _, l := range s.host.Ledgers() {
		if err := l.Writable(c.Request().Context()); err != nil {
			return err
		}
	}
	detail, stopped := s.indexHealth()
	if stopped {
		return fault(http.StatusServiceUnavailable, "%s", detail)
	}
	return answerHealth(c, "ready", detail)
}

func (s *Server) version(c echo.Context) error {
	return answerJSON(c, http.StatusOK, struct {
		Version string `json:"version"`
		Go      string `json:"go"`
	}{s.config.Version, runtime.Version()})
}

// openAPI answers the OpenAPI document.
func (s *Server) openAPI(c echo.Context) error {
	return sendShared(c, "application/yaml", colophon.OpenAPI)
}

// docsPage answers the OpenAPI document as a web page.
func (s *Server) docsPage(c echo.Context) error {
	c.Response().Header().Set("Content-Security-Policy", reference.Policy)
	return sendShared(c, echo.MIMETextHTMLCharsetUTF8, reference.Page)
}

// docsFile answers a file that the page at /docs loads.
func (s *Server) docsFile(c echo.Context) error {
	switch c.Param("file") {
	case "rapidoc-min.js":
		return sendShared(c, javaScript, reference.Script)
	case "theme.js":
		return sendShared(c, javaScript, reference.Theme)
	case "openapi.json":
		contract, err := reference.Contract(c.Request(), s.config.Access.Required())
		if err != nil {
			return err
		}
		return sendText(c, http.StatusOK, echo.MIMEApplicationJSON, contract)
	}
	return echo.ErrNotFound
}

const javaScript = "text/javascript; charset=utf-8"
