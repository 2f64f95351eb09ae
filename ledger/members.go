package ledger

import (
	"context"
	"errors"
	"fmt"

	"colophon/ledger/event"
	"colophon/ledger/record/rules"
	"colophon/storage"
)

// memberSetting names the setting that stores the secret of payload members. It is in the database,
// so that the two cannot be lost apart, and in its backups, which have the content that it is about.
const memberSetting = "member_secret"

// MemberSecret returns the secret of payload members (spec: Payload members). It is nil in a ledger
// that an earlier build created.
func (l *Ledger) MemberSecret() *rules.MemberSecret { return l.members }

// recoverMemberSecret loads the secret to which the ledger's first event commits.
func (l *Ledger) recoverMemberSecret(ctx context.Context) error {
	if l.Head() == nil || l.Head().Size == 0 {
		return nil
	}
	first, err := l.store.Entry(ctx, 0)
	if err != nil {
		return fmt.Errorf("reading the first entry: %w", err)
	}
	var decoder event.Decoder
	e, err := decoder.Decode(first)
	if err != nil {
		return fmt.Errorf("%w: the first event: %w", ErrDamaged, err)
	}
	commitment := e.Created().MemberSecretHash
	if commitment == nil {
		return nil
	}
	secret, err := l.readMemberSecret(ctx)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return fmt.Errorf("%w: the secret of payload members, to which the first event commits, is missing", ErrDamaged)
	case err != nil:
		return err
	case string(rules.AppendHex(nil, secret.Commitment())) != string(commitment):
		return fmt.Errorf("%w: the secret of payload members is not the one to which the first event commits", ErrDamaged)
	}
	l.members = secret
	return nil
}

// makeMemberSecret stores a random secret, durably, before the first event commits to it. It keeps the
// one that an interrupted creation stored.
func (l *Ledger) makeMemberSecret(ctx context.Context) error {
	secret, err := l.readMemberSecret(ctx)
	if errors.Is(err, storage.ErrNotFound) {
		secret = rules.NewMemberSecret()
		err = l.store.SetSetting(ctx, memberSetting, secret.Bytes())
	}
	if err != nil {
		return fmt.Errorf("the secret of payload members: %w", err)
	}
	l.members = secret
	return nil
}

func (l *Ledger) readMemberSecret(ctx context.Context) (*rules.MemberSecret, error) {
	stored, err := l.store.Setting(ctx, memberSetting)
	if err != nil {
		return nil, fmt.Errorf("reading the secret of payload members: %w", err)
	}
	secret, err := rules.ReadMemberSecret(stored)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return secret, nil
}
