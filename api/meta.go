package api

import (
	"errors"
	"net/http"
	"runtime"

	"github.com/labstack/echo/v4"

	"colophon"
	"colophon/api/call"
	"colophon/api/problem"
	"colophon/api/reference"
	"colophon/client/wire"
	"colophon/console"
	"colophon/internal/example"
	"colophon/storage"
)

// home sends the console to browsers, and redirects other clients to the documentation.
func (s *Server) home(c *call.Call) error {
	c.Response().Header().Add(echo.HeaderVary, echo.HeaderAccept)
	if call.PreferredMediaType(c.Request()) != echo.MIMETextHTML {
		return c.Redirect(http.StatusFound, "/docs")
	}
	console.ServePage(c.Response(), c.Request(), call.AcceptsGzip(c.Request()), s.config.Authenticator.SignInOrigins()...)
	return nil
}

// consoleFile serves a file of the console. It responds with 404 to requests for files of other
// versions of the console.
func (s *Server) consoleFile(c *call.Call) error {
	if !console.ServeFile(c.Response(), c.Request(), call.AcceptsGzip(c.Request()), c.Param("version"), c.Param("file")) {
		return echo.ErrNotFound
	}
	return nil
}

// healthz reports that the process responds to requests. The response also describes a fault of the
// index, if there is one.
func (s *Server) healthz(c *call.Call) error {
	detail, _ := s.indexHealth()
	return answerHealth(c, "ok", detail)
}

// readyz reports that the server accepts writes and answers queries. It responds with 503 while disk space is
// short, a ledger cannot sign, an index has stopped, or a read-only server cannot follow the ledgers.
func (s *Server) readyz(c *call.Call) error {
	for _, l := range s.host.Ledgers() {
		// If another server writes the ledger, this server can still serve reads.
		if err := l.CheckWritable(c.Request().Context()); err != nil && !errors.Is(err, storage.ErrLeaseNotHeld) {
			return err
		}
	}
	if s.config.StalenessError != nil {
		if err := s.config.StalenessError(); err != nil {
			return problem.New(http.StatusServiceUnavailable, "%v", err)
		}
	}
	detail, stopped := s.indexHealth()
	if stopped {
		return problem.New(http.StatusServiceUnavailable, "%s", detail)
	}
	return answerHealth(c, "ready", detail)
}

func (s *Server) version(c *call.Call) error {
	return c.AnswerJSON(http.StatusOK, struct {
		Version string `json:"version"`
		Go      string `json:"go"`
	}{s.config.Version, runtime.Version()})
}

// signIn describes how callers can sign in. It needs no credentials, and reveals nothing about any
// ledger.
func (s *Server) signIn(c *call.Call) error {
	options := s.config.Authenticator.SignInMethods()
	answer := wire.SignInMethods{Version: s.config.Version, Required: options.Required, AcceptsTokens: options.AcceptsTokens, AcceptsCertificates: options.AcceptsCertificates,
		ReadOnly: s.config.ReadOnly, OIDC: []wire.SignInIssuer{}}
	for _, o := range options.Issuers {
		answer.OIDC = append(answer.OIDC, wire.SignInIssuer{Issuer: o.Issuer, ClientID: o.ConsoleClientID})
	}
	return c.AnswerJSON(http.StatusOK, answer)
}

// openAPI sends the OpenAPI document.
func (s *Server) openAPI(c *call.Call) error {
	return c.AnswerSharedText("application/yaml", colophon.OpenAPI)
}

// example sends a few example records as lines that can be imported into an empty ledger.
func (s *Server) example(c *call.Call) error {
	return c.AnswerSharedText(call.NDJSONMediaType, example.BatchBody)
}

// docsPage sends the OpenAPI document as a web page.
func (s *Server) docsPage(c *call.Call) error {
	c.Response().Header().Set("Content-Security-Policy", reference.ContentSecurityPolicy)
	return c.AnswerSharedText(echo.MIMETextHTMLCharsetUTF8, reference.Page)
}

// docsFile sends a file that the page at /docs loads.
func (s *Server) docsFile(c *call.Call) error {
	switch c.Param("file") {
	case "rapidoc-min.js":
		return c.AnswerSharedText(javaScript, reference.RapiDocScript)
	case "theme.js":
		return c.AnswerSharedText(javaScript, reference.ThemeScript)
	case "openapi.json":
		contract, err := reference.OpenAPIJSON(c.Request(), s.config.Authenticator.RequiresIdentity())
		if err != nil {
			return err
		}
		return c.AnswerText(http.StatusOK, echo.MIMEApplicationJSON, contract)
	}
	return echo.ErrNotFound
}

const javaScript = "text/javascript; charset=utf-8"
