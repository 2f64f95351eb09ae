package questions

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"colophon/api/call"
	"colophon/api/problem"
	"colophon/client/wire"
	"colophon/ledger"
	"colophon/storage"
)

// missingSecret returns storage.ErrLogOnly if the ledger's store is a published copy, which
// never contains the payload-member secret.
func missingSecret(ctx context.Context, l *ledger.Ledger) error {
	if l.PayloadMemberSecret() != nil {
		return nil
	}
	_, err := l.Reader().Setting(ctx, ledger.PayloadMemberSecretSetting)
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	return err
}

// ServePayloadMemberSecret sends the secret with which a ledger computes the digests of payload
// members (spec: Payload members). With it, a caller can test guesses about the values, so only
// callers with the content scope get it.
func (h *Handlers) ServePayloadMemberSecret(c *call.Call) error {
	if err := c.ParseParameters(); err != nil {
		return err
	}
	l, err := c.Ledger()
	if err != nil {
		return err
	}
	if err := missingSecret(c.Request().Context(), l); err != nil {
		return err
	}
	secret := l.PayloadMemberSecret()
	if secret == nil {
		return problem.New(http.StatusNotFound, "ledger %s has no payload-member secret, because an earlier version of colophon created the ledger", l.Name())
	}
	c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
	return c.AnswerJSON(http.StatusOK, wire.PayloadMemberSecret{MemberSecret: hex.EncodeToString(secret.Bytes())})
}
