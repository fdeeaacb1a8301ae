package identity

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
)

// Session is the content of a sealed token: temporary credentials of a role, a user, a root user or a federated user.
type Session struct {
	// AccessKeyID is of the credentials themselves; of a bearer token, which has no Secret, the one that it was got
	// with.
	AccessKeyID string    `json:"k"`
	Secret      string    `json:"s,omitempty"`
	Account     string    `json:"a"`
	Issued      time.Time `json:"i"`
	Expires     time.Time `json:"e"`

	// Role or User is the name of the principal whose policies apply, PrincipalID its unique id. Neither is set for a
	// root user, whose PrincipalID is the account.
	Role        string `json:"r,omitempty"`
	User        string `json:"u,omitempty"`
	PrincipalID string `json:"p"`
	// Name is that of the session of a role, or of a federated user.
	Name      string `json:"n,omitempty"`
	Federated bool   `json:"f,omitempty"`

	Policies       []string          `json:"d,omitempty"` // session policies: documents
	PolicyARNs     []string          `json:"m,omitempty"` // session policies: managed
	Tags           map[string]string `json:"t,omitempty"`
	TransitiveTags []string          `json:"v,omitempty"`
	SourceIdentity string            `json:"o,omitempty"`
	// Provider is the ARN of the OIDC provider whose token the session came from.
	Provider string `json:"w,omitempty"`

	// Service is the AWS service that acts in the session: on behalf of the principal with Forwarded, else under a role
	// that was passed to it, or one of its own. Nobody else has its credentials; they are good inside this process only.
	Service   string `json:"x,omitempty"`
	Forwarded bool   `json:"y,omitempty"`
	// LongTerm is set when the session may do what its principal may with an access key: when the caller that Forwarded
	// is about signed with one, not in a session, and in sessions of the console.
	LongTerm bool `json:"l,omitempty"`
	// Key is the ID of that access key. The session ends with it.
	Key string `json:"z,omitempty"`
}

// limited reports whether session policies limit the session.
func (s *Session) limited() bool { return len(s.Policies)+len(s.PolicyARNs) > 0 || s.Federated }

// sessionARN and userID are the ARN and user ID that GetCallerIdentity returns.
func (s *Session) sessionARN(path string) string {
	switch {
	case s.Federated:
		return "arn:aws:sts::" + s.Account + ":federated-user/" + s.Name
	case s.Role != "":
		return "arn:aws:sts::" + s.Account + ":assumed-role/" + s.Role + "/" + s.Name
	case s.User != "":
		return "arn:aws:iam::" + s.Account + ":user" + path + s.User
	}
	return "arn:aws:iam::" + s.Account + ":root"
}

func (s *Session) sessionUserID() string {
	switch {
	case s.Federated:
		return s.Account + ":" + s.Name
	case s.Role != "":
		return s.PrincipalID + ":" + s.Name
	}
	return s.PrincipalID
}

// Purpose is the one thing that a sealed token is good for. It is sealed with the token as additional data, so that a
// token of one purpose does not open as one of another.
type Purpose string

// The purposes of tokens, and of the ids of access keys, which are no tokens.
const (
	accessKey Purpose = "iam: access key"
	// sessionToken belongs to temporary credentials. It proves nothing without their secret, and is no secret itself:
	// it is in every presigned URL.
	sessionToken Purpose = "sts: session token"
	// RegistryPassword is the purpose of the tokens of ecr:GetAuthorizationToken. Their holder pushes and pulls as the
	// caller.
	RegistryPassword Purpose = "ecr: authorization token"
	// LayerURL is in the URL that ecr:GetDownloadUrlForLayer gives. Its holder downloads one layer of one repository.
	LayerURL Purpose = "ecr: URL of a layer"
	// authorizationMessage is in errors. Who may decode it learns why a request was refused.
	authorizationMessage Purpose = "sts: authorization message"
)

// sealer seals sessions with AES-256-GCM. The key's id goes before the sealed text, so that keys can be replaced.
type sealer struct {
	table   store.Table[record.SessionKey]
	current string

	mu    sync.RWMutex
	aeads map[string]cipher.AEAD
}

const (
	tokenVersion = 2 // 1 had no purpose
	keyIDSize    = 8
)

var errBadToken = errors.New("the session token was not made here, or was altered")

func newSealer(ctx context.Context, table store.Table[record.SessionKey], now time.Time) (*sealer, error) {
	s := &sealer{table: table, aeads: map[string]cipher.AEAD{}}
	rows, err := table.List(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("read the keys of session tokens: %w", err)
	}
	if len(rows) == 0 {
		secret, id := make([]byte, 32), make([]byte, keyIDSize)
		rand.Read(secret)
		rand.Read(id)
		if _, err := table.Create(ctx, store.Key(hex.EncodeToString(id)), record.SessionKey{Secret: secret,
			CreatedAt: now}); err != nil {
			return nil, fmt.Errorf("make the key of session tokens: %w", err)
		}
		// Another daemon may have done the same at the same moment. Both keys open; every daemon seals with the first
		// in order.
		if rows, err = table.List(ctx, ""); err != nil {
			return nil, fmt.Errorf("read the keys of session tokens: %w", err)
		}
	}
	s.current = store.Parts(rows[0].Key)[0]
	return s, nil
}

func (s *sealer) loadAEAD(ctx context.Context, id string) (cipher.AEAD, error) {
	s.mu.RLock()
	a := s.aeads[id]
	s.mu.RUnlock()
	if a != nil {
		return a, nil
	}
	row, err := s.table.Get(ctx, store.Key(id))
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(row.Value.Secret)
	if err != nil {
		return nil, err
	}
	if a, err = cipher.NewGCM(block); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.aeads[id] = a
	s.mu.Unlock()
	return a, nil
}

// additionalData returns the additional data of a token: its purpose, and, if not empty, the only resource that it
// opens.
func additionalData(purpose Purpose, resource string) []byte {
	return []byte(string(purpose) + "\x00" + resource)
}

// seal returns the token of a session, or of other content, for a purpose.
func (s *sealer) seal(ctx context.Context, purpose Purpose, resource string, content any) (string, error) {
	text, err := json.Marshal(content)
	if err != nil {
		return "", err
	}
	a, err := s.loadAEAD(ctx, s.current)
	if err != nil {
		return "", fmt.Errorf("read the key of session tokens: %w", err)
	}
	id, err := hex.DecodeString(s.current)
	if err != nil {
		return "", fmt.Errorf("the id of the session key %q: %w", s.current, err)
	}
	token := append([]byte{tokenVersion}, id...)
	nonce := make([]byte, a.NonceSize())
	rand.Read(nonce)
	token = append(token, nonce...)
	return base64.StdEncoding.EncodeToString(a.Seal(token, nonce, text, additionalData(purpose, resource))), nil
}

// open undoes seal. Whatever is not of our making, or was made for another purpose or resource, is errBadToken.
func (s *sealer) open(ctx context.Context, purpose Purpose, resource, token string, content any) error {
	raw, err := base64.StdEncoding.DecodeString(token)
	if err != nil || len(raw) < 1+keyIDSize || raw[0] != tokenVersion ||
		base64.StdEncoding.EncodeToString(raw) != token {
		return errBadToken // the decoder passes over line ends and unused bits: one session has one token
	}
	a, err := s.loadAEAD(ctx, hex.EncodeToString(raw[1:1+keyIDSize]))
	if errors.Is(err, store.ErrNotFound) {
		return errBadToken
	}
	if err != nil {
		return fmt.Errorf("read the key of session tokens: %w", err)
	}
	raw = raw[1+keyIDSize:]
	if len(raw) < a.NonceSize() {
		return errBadToken
	}
	text, err := a.Open(nil, raw[:a.NonceSize()], raw[a.NonceSize():], additionalData(purpose, resource))
	if err != nil {
		return errBadToken
	}
	if err := json.Unmarshal(text, content); err != nil {
		return fmt.Errorf("decode a session token: %w", err)
	}
	return nil
}

// Seal gives temporary credentials to a session: it fills in AccessKeyID and Secret and returns the session token.
func (i *Identity) Seal(ctx context.Context, session *Session) (token string, err error) {
	session.AccessKeyID, session.Secret = NewAccessKey(TemporaryKey, session.Account)
	return i.sealer.seal(ctx, sessionToken, "", session)
}
