package mountgrant

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"syscall"
)

// Port is the TCP port of mount targets, that of NFS.
const Port = 2049

// Request is what a launcher asks for.
type Request struct {
	// FileSystemID is the file system that the client has named; empty when it named the mount target by its address.
	FileSystemID  string `json:",omitempty"`
	AccessPointID string `json:",omitempty"`
	TLS           bool   `json:",omitempty"` // the client asked for encryption in transit
	// Signed is the query of the presigned request by which the client identifies itself; empty for an anonymous one.
	Signed string `json:",omitempty"`
}

// Grant is what the daemon answers.
type Grant struct {
	// Refused says why the file system is not mounted; nil when it is.
	Refused      *Refusal     `json:",omitempty"`
	FileSystemID string       `json:",omitempty"`
	Root         string       `json:",omitempty"` // the directory on the host with the files
	AccessPoint  *AccessPoint `json:",omitempty"`
	// ReadOnly and SquashRoot restrict the client: it may not write, and its root is nobody.
	ReadOnly   bool `json:",omitempty"`
	SquashRoot bool `json:",omitempty"`
}

// Refusal says why a file system is not mounted.
type Refusal struct {
	Errno   uint32 // the error of mount(2)
	Message string // for the log of the machine
}

// AccessPoint is an access point of a file system.
type AccessPoint struct {
	ID       string
	Path     string    // its root directory, below the root of the file system
	User     *User     `json:",omitempty"` // who all its users are; nil: who they are
	Creation *Creation `json:",omitempty"` // of its root directory; nil: that has to be there
}

// User is a user of a file system, with its groups.
type User struct {
	UID, GID uint32
	Groups   []uint32 `json:",omitempty"`
}

// Creation is what a directory begins with.
type Creation struct {
	UID, GID uint32
	Mode     uint32 // permission bits, with those for set-user-ID, set-group-ID and sticky
}

// ErrForeign is the error of Ask when the other side does not prove that it is the daemon: it is another NFS server, or
// a program of the machine.
var ErrForeign = errors.New("what answers is no mount target of this daemon")

var errClient = errors.New("the client is no launcher of a machine of this daemon")

const (
	magic     = "\x00coracle mount 1\n" // of which no RPC message, nor a TLS handshake, has the first byte with the others
	nonceSize = 32
	maxFrame  = 64 << 10
)

type nonce [nonceSize]byte

func newNonce() (n nonce) {
	_, _ = rand.Read(n[:]) // never fails
	return n
}

type hello struct {
	InstanceID string
	Nonce      []byte
}

// challenge proves to the client that the server has the key.
type challenge struct {
	Nonce []byte
	Proof []byte
}

// sealed is a message that nobody else can read or make.
type sealed struct{ Sealed []byte }

// conversation has what the messages of one connection are bound to.
type conversation struct {
	key            []byte
	instanceID     string
	client, server nonce
}

// derive returns what only who has the key can make for a message of that kind; after is the message that it answers.
func (c *conversation) derive(kind string, after []byte) []byte {
	mac := hmac.New(sha256.New, c.key)
	for _, part := range [][]byte{[]byte(kind), []byte(c.instanceID), c.client[:], c.server[:], after} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		mac.Write(size[:])
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// sealer returns what seals the one message of that kind in this conversation: its key is used once.
func (c *conversation) sealer(kind string, after []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(c.derive(kind, after))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func (c *conversation) send(w io.Writer, kind string, after []byte, body []byte) error {
	s, err := c.sealer(kind, after)
	if err != nil {
		return err
	}
	return writeFrame(w, sealed{s.Seal(nil, make([]byte, s.NonceSize()), body, nil)})
}

func (c *conversation) receive(r io.Reader, kind string, after []byte, wrong error) ([]byte, error) {
	var m sealed
	if err := readFrame(r, &m); err != nil {
		return nil, err
	}
	s, err := c.sealer(kind, after)
	if err != nil {
		return nil, err
	}
	body, err := s.Open(nil, make([]byte, s.NonceSize()), m.Sealed, nil)
	if err != nil {
		return nil, wrong
	}
	return body, nil
}

func writeFrame(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(data) > maxFrame {
		return fmt.Errorf("a message of %d bytes is too long", len(data))
	}
	_, err = w.Write(binary.BigEndian.AppendUint32(nil, uint32(len(data))))
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}

// errForm is the error of what is no message of this protocol.
var errForm = errors.New("it is no message of this protocol")

func readFrame(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxFrame {
		return errForm
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(r, data); err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return errForm
	}
	return nil
}

// Ask asks for a grant. The error is ErrForeign when the other side is not the daemon, and that of the connection when
// nobody answers.
func Ask(c io.ReadWriter, key []byte, instanceID string, request Request) (grant Grant, err error) {
	talk := conversation{key: key, instanceID: instanceID, client: newNonce()}
	if _, err := io.WriteString(c, magic); err != nil {
		return grant, err
	}
	if err := writeFrame(c, hello{instanceID, talk.client[:]}); err != nil {
		return grant, foreignUnlessLate(err)
	}
	var proof challenge
	if err := readFrame(c, &proof); err != nil {
		return grant, foreignUnlessLate(err)
	}
	if len(proof.Nonce) != nonceSize {
		return grant, ErrForeign
	}
	copy(talk.server[:], proof.Nonce)
	if !hmac.Equal(proof.Proof, talk.derive("challenge", nil)) {
		return grant, ErrForeign
	}
	body, err := json.Marshal(request)
	if err != nil {
		return grant, err
	}
	if err := talk.send(c, "request", nil, body); err != nil {
		return grant, err
	}
	answer, err := talk.receive(c, "grant", body, ErrForeign)
	if err != nil {
		return grant, err
	}
	return grant, json.Unmarshal(answer, &grant)
}

// foreignUnlessLate returns ErrForeign for the answer of who does not speak this protocol: NFS servers end a connection
// on which no RPC message comes.
func foreignUnlessLate(err error) error {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, syscall.ECONNRESET, syscall.EPIPE,
		errForm} {
		if errors.Is(err, end) {
			return ErrForeign
		}
	}
	return err
}

// Asked is a request that a launcher has proved to be its own.
type Asked struct {
	InstanceID string
	Request    Request

	talk conversation
	body []byte
}

var instanceIDForm = regexp.MustCompile(`^i-[0-9a-f]{8,17}$`)

// Receive reads a request. key returns the key of an instance's machine.
func Receive(c io.ReadWriter, key func(instanceID string) ([]byte, error)) (*Asked, error) {
	begin := make([]byte, len(magic))
	if _, err := io.ReadFull(c, begin); err != nil {
		return nil, err
	}
	var h hello
	if string(begin) != magic {
		return nil, errClient
	}
	if err := readFrame(c, &h); err != nil {
		return nil, err
	}
	if len(h.Nonce) != nonceSize || !instanceIDForm.MatchString(h.InstanceID) {
		return nil, errClient
	}
	secret, err := key(h.InstanceID)
	if err != nil {
		return nil, err
	}
	a := &Asked{InstanceID: h.InstanceID,
		talk: conversation{key: secret, instanceID: h.InstanceID, client: nonce(h.Nonce), server: newNonce()}}
	if err := writeFrame(c, challenge{a.talk.server[:], a.talk.derive("challenge", nil)}); err != nil {
		return nil, err
	}
	if a.body, err = a.talk.receive(c, "request", nil, errClient); err != nil {
		return nil, err
	}
	return a, json.Unmarshal(a.body, &a.Request)
}

// Answer sends the grant.
func (a *Asked) Answer(c io.Writer, grant Grant) error {
	body, err := json.Marshal(grant)
	if err != nil {
		return err
	}
	return a.talk.send(c, "grant", a.body, body)
}
