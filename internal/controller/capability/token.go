package capability

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/coracle-eks/coracle/internal/durable"
)

const (
	// session is the name of the session in which EKS acts under the role of a kro capability.
	// https://docs.aws.amazon.com/eks/latest/userguide/capabilities-security.html
	session = "KRO"
	// tokenLife is the time for which a token is valid, as for any IAM identity.
	tokenLife = 15 * time.Minute
	// refreshInterval is the age at which the token is replaced. client-go reads its file once a minute.
	refreshInterval = tokenLife / 3
)

// ensureToken writes the token of the role to the file from which the program reads it, anew when it is old or that of
// another role, and returns it.
func (p *pass) ensureToken(ctx context.Context, roleARN string) (string, error) {
	name, of := p.path("token"), p.path("role")
	info, err := os.Stat(name)
	if err == nil && p.c.o.Now().Sub(info.ModTime()) < refreshInterval {
		token, err := os.ReadFile(name)
		role, unknown := os.ReadFile(of)
		if err == nil && unknown == nil && string(role) == roleARN {
			return string(token), nil
		}
	}
	token, err := p.c.o.Token(ctx, p.row, roleARN, session)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return "", err
	}
	if err := durable.WriteFile(name, []byte(token), 0o600); err != nil {
		return "", err
	}
	return token, durable.WriteFile(of, []byte(roleARN), 0o600)
}

// path returns the path of a file of the capability.
func (p *pass) path(name string) string { return filepath.Join(p.c.o.Dir, p.row.ID, name) }
