package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"mime"
	"net/http"
	"sync"
	"time"
)

const (
	// codeLife is the time within which a link is to be opened.
	codeLife = time.Minute
	// codeSize is the size of a code, in bytes: 256 bits.
	codeSize = 32
	// maxCodes is how many codes wait at a time; the oldest goes for a new one.
	maxCodes = 16
	// maxSessionRequest limits the body of a request that redeems a code, in bytes.
	maxSessionRequest = 1 << 10
)

// Credentials are what a page signs its requests with.
type Credentials struct {
	AccessKeyID     string    `json:"accessKeyId"`
	SecretAccessKey string    `json:"secretAccessKey"`
	SessionToken    string    `json:"sessionToken"`
	Expiration      time.Time `json:"expiration"`
}

// session answers a request that redeems a code.
type session struct {
	Credentials
	Account string `json:"account"`
	ARN     string `json:"arn"`
	Region  string `json:"region"`
}

// problem answers a request that is refused.
type problem struct {
	Message string `json:"message"`
}

// codes are the one-time codes that have not been redeemed. They are in this process' memory alone, by their digests,
// so that how long a search takes tells nothing of them.
type codes struct {
	now func() time.Time

	mu      sync.Mutex
	waiting map[[sha256.Size]byte]code
}

type code struct {
	account string
	expires time.Time
	gone    chan struct{} // closed when the code is good no more, but for its age
}

// CreateCode returns a code that signs in the root user of an account, once, until expires. It goes into a link, in
// the fragment, which browsers send to nobody: [Prefix] + "#code=" + code.
func (c *Console) CreateCode(account string) (text string, expires time.Time) {
	return c.codes.create(account)
}

func (c *codes) create(account string) (text string, expires time.Time) {
	secret := make([]byte, codeSize)
	rand.Read(secret)
	text = base64.RawURLEncoding.EncodeToString(secret)
	now := c.now()
	created := code{account: account, expires: now.Add(codeLife), gone: make(chan struct{})}

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == nil {
		c.waiting = map[[sha256.Size]byte]code{}
	}
	var oldest [sha256.Size]byte
	for digest, each := range c.waiting {
		if !now.Before(each.expires) {
			c.remove(digest)
		} else if first, ok := c.waiting[oldest]; !ok || each.expires.Before(first.expires) {
			oldest = digest
		}
	}
	if len(c.waiting) >= maxCodes {
		c.remove(oldest)
	}
	c.waiting[sha256.Sum256([]byte(text))] = created
	return text, created.expires
}

// redeem returns the account of a code, which is good no more.
func (c *codes) redeem(text string) (account string, ok bool) {
	digest := sha256.Sum256([]byte(text))
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.waiting[digest]
	c.remove(digest)
	return found.account, ok && c.now().Before(found.expires)
}

// remove forgets a code. mu is held.
func (c *codes) remove(digest [sha256.Size]byte) {
	if found, ok := c.waiting[digest]; ok {
		close(found.gone)
		delete(c.waiting, digest)
	}
}

// AwaitCode waits until a code has been redeemed, or is good no more for another reason than its age, or ctx ends.
func (c *Console) AwaitCode(ctx context.Context, text string) error {
	c.codes.mu.Lock()
	found, ok := c.codes.waiting[sha256.Sum256([]byte(text))]
	c.codes.mu.Unlock()
	if !ok {
		return nil
	}
	select {
	case <-found.gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serveSession exchanges a code for credentials. Only the page itself may ask: a page of another origin would sign its
// visitor in as somebody else.
func (c *Console) serveSession(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, message string) { c.answerJSON(w, status, problem{message}) }
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		refuse(http.StatusMethodNotAllowed, "The path takes POST alone.")
		return
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		refuse(http.StatusUnsupportedMediaType, "The body must be application/json.")
		return
	}
	if r.Header.Get("Origin") == "" || !isSameOrigin(r) {
		refuse(http.StatusForbidden, "Only the console itself may sign in: the Origin of the request is another.")
		return
	}
	var in struct {
		Code string `json:"code"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxSessionRequest)).Decode(&in); err != nil {
		refuse(http.StatusBadRequest, "The body is not a code in JSON, such as {\"code\": \"...\"}.")
		return
	}
	account, ok := c.codes.redeem(in.Code)
	if !ok {
		refuse(http.StatusForbidden, "The link has been used, or is older than a minute. Run \"coracle console\" again.")
		return
	}
	answer, err := c.signIn(r.Context(), account)
	if err != nil {
		c.options.Log.Error("sign in to the console", "account", account, "error", err)
		refuse(http.StatusInternalServerError, "The daemon could not make credentials; its log says why.")
		return
	}
	c.options.Log.Info("signed in to the console", "account", account, "from", r.RemoteAddr)
	c.answerJSON(w, http.StatusOK, answer)
}

func (c *Console) signIn(ctx context.Context, account string) (session, error) {
	credentials, err := c.options.Credentials(ctx, account)
	return session{Credentials: credentials, Account: account, ARN: "arn:aws:iam::" + account + ":root",
		Region: c.options.Region}, err
}
