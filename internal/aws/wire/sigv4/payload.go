package sigv4

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// What X-Amz-Content-Sha256 says of payloads in the coding aws-chunked, beside a hash and [UnsignedPayload].
// https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html
const (
	streamingSigned          = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
	streamingSignedTrailer   = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
	streamingUnsignedTrailer = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
)

const (
	// holdBack is the number of bytes at the end of a payload that are not given out before all of it has been verified.
	holdBack = 32 << 10
	// maxChunkLine limits the line before a chunk, and a trailer.
	maxChunkLine = 1 << 10
	// maxTrailers limits the trailers of a payload.
	maxTrailers = 8
)

var emptyHash = hex.EncodeToString(sha256.New().Sum(nil))

// Payload reads the payload of a request to Amazon S3 while it arrives, without the coding in which it is sent, and
// verifies it. Its last bytes come only once all of it has been verified: who waits for the whole of it never gets the
// whole of one that is not what was signed.
type Payload struct {
	// Length is the number of bytes that it yields; -1 when the request does not say.
	Length int64
	// Hash is what to sign in the place of the payload: its SHA-256, or UnsignedPayload.
	Hash string
	// TrailerNames are the trailers that the request announces, in lower case.
	TrailerNames []string
	// Trailer has the trailers, after io.EOF.
	Trailer http.Header

	source io.Reader             // what is verified
	ahead  []byte                // of it, not given out yet
	err    error                 // of source
	failed atomic.Pointer[error] // err, for those who do not read
}

// VerifyHead verifies the signature of a request to Amazon S3 before its payload has been read, by what the request
// says of it, and returns the payload. Nothing but X-Amz-Content-Sha256 is known of the payload until it has been read.
func (s *Signature) VerifyHead(body io.Reader, secret string, now time.Time) (*Payload, error) {
	declared := s.header.Get("X-Amz-Content-Sha256")
	if declared == "" && s.Presigned {
		if declared = s.queryValue("X-Amz-Content-Sha256"); declared == "" {
			declared = UnsignedPayload
		}
	}
	if declared == "" {
		return nil, invalidRequest("Missing required header for this request: x-amz-content-sha256")
	}
	if err := s.verify(declared, secret, now); err != nil {
		return nil, err
	}
	if body == nil {
		body = http.NoBody
	}
	p := &Payload{Length: s.contentLength, Hash: declared, ahead: make([]byte, 0, 2*holdBack)}
	chunks := func() *chunkReader {
		key, _ := signingKeys.get(signingScope{secret, s.scopeDate, s.Region, s.Service})
		if key == nil {
			key = deriveKey(signingScope{secret, s.scopeDate, s.Region, s.Service})
		}
		return &chunkReader{in: bufio.NewReaderSize(body, 4<<10), of: p, signature: s, key: key, previous: s.signature}
	}
	switch declared {
	case UnsignedPayload:
		p.source = body
		return p, nil
	case streamingSigned, streamingSignedTrailer, streamingUnsignedTrailer:
		c := chunks()
		c.signed = declared != streamingUnsignedTrailer
		c.trailers = declared != streamingSigned
		length, err := strconv.ParseInt(s.header.Get("X-Amz-Decoded-Content-Length"), 10, 64)
		if err != nil || length < 0 {
			return nil, invalidRequest("The header x-amz-decoded-content-length is not the length of the payload.")
		}
		if c.trailers {
			for name := range strings.SplitSeq(strings.Join(s.header.Values("X-Amz-Trailer"), ","), ",") {
				if name = strings.ToLower(strings.TrimSpace(name)); name != "" {
					p.TrailerNames = append(p.TrailerNames, name)
				}
			}
		}
		if len(p.TrailerNames) > maxTrailers {
			return nil, invalidRequest("The request announces more trailers than any of S3's.")
		}
		c.left, p.Length, p.Hash, p.source = length, length, UnsignedPayload, c
		return p, nil
	}
	if strings.HasPrefix(declared, "STREAMING-") {
		return nil, &Error{Code: NotImplemented, Status: http.StatusNotImplemented,
			Message: "A header you provided implies functionality that is not implemented: x-amz-content-sha256: " +
				declared}
	}
	if raw, err := hex.DecodeString(declared); err != nil || len(raw) != sha256.Size {
		return nil, invalidRequest("x-amz-content-sha256 must be UNSIGNED-PAYLOAD, a streaming form or a valid sha256 value.")
	}
	p.source = &hashReader{in: body, hash: sha256.New(), want: declared}
	return p, nil
}

// Read implements [io.Reader].
func (p *Payload) Read(b []byte) (int, error) {
	for p.err == nil && len(p.ahead) <= holdBack {
		n, err := p.source.Read(p.ahead[len(p.ahead):cap(p.ahead)])
		p.ahead, p.err = p.ahead[:len(p.ahead)+n], err
		if err != nil && !errors.Is(err, io.EOF) {
			p.failed.Store(&err)
		}
	}
	free := len(p.ahead) - holdBack
	if errors.Is(p.err, io.EOF) {
		free = len(p.ahead)
	}
	if free <= 0 {
		return 0, p.err
	}
	n := copy(b, p.ahead[:free])
	p.ahead = p.ahead[:copy(p.ahead, p.ahead[n:])]
	return n, nil
}

// Err returns why the payload could not be read to its end, or is not what was signed; nil otherwise. It may be called
// while somebody else reads.
func (p *Payload) Err() error {
	if err := p.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// hashReader ends with an error unless it has read what has the hash.
type hashReader struct {
	in   io.Reader
	hash hash.Hash
	want string
}

func (h *hashReader) Read(b []byte) (int, error) {
	n, err := h.in.Read(b)
	h.hash.Write(b[:n])
	if errors.Is(err, io.EOF) && hex.EncodeToString(h.hash.Sum(nil)) != h.want {
		return n, &Error{Code: XAmzContentSHA256Mismatch, Status: http.StatusBadRequest,
			Message: "The provided 'x-amz-content-sha256' header does not match what was computed."}
	}
	return n, err
}

// chunkReader decodes aws-chunked, and verifies the signature of each chunk, which continues that of the chunk before,
// and of the trailers.
type chunkReader struct {
	in        *bufio.Reader
	of        *Payload
	signature *Signature
	key       []byte
	previous  string // signature
	signed    bool
	trailers  bool

	left  int64 // of the payload
	chunk int64 // left of the chunk in hand
	hash  hash.Hash
	want  string // signature of the chunk in hand
	open  bool   // there is a chunk in hand
}

func (c *chunkReader) Read(b []byte) (int, error) {
	for c.chunk == 0 {
		if c.open {
			if err := c.endChunk(); err != nil {
				return 0, err
			}
		}
		last, err := c.beginChunk()
		if err != nil {
			return 0, err
		}
		if last {
			return 0, c.end()
		}
	}
	if len(b) == 0 {
		return 0, nil
	}
	n, err := c.in.Read(b[:min(int64(len(b)), c.chunk)])
	c.chunk, c.left = c.chunk-int64(n), c.left-int64(n)
	if c.signed {
		c.hash.Write(b[:n])
	}
	if errors.Is(err, io.EOF) {
		err = incompleteBody()
	}
	return n, err
}

// beginChunk reads the line before a chunk. last is true for the empty chunk that ends the payload.
func (c *chunkReader) beginChunk() (last bool, err error) {
	line, err := c.readLine()
	if err != nil {
		return false, err
	}
	size, extension, _ := strings.Cut(line, ";")
	if c.chunk, err = strconv.ParseInt(size, 16, 64); err != nil || c.chunk < 0 || len(size) > 16 ||
		strings.HasPrefix(size, "+") {
		return false, invalidRequest("The payload is not in the coding aws-chunked: a chunk has no size.")
	}
	if c.chunk > c.left {
		return false, incompleteBody()
	}
	if c.signed {
		var ok bool
		if c.want, ok = strings.CutPrefix(extension, "chunk-signature="); !ok {
			return false, invalidRequest("The payload is not in the coding aws-chunked: a chunk has no signature.")
		}
		c.hash = sha256.New()
	}
	c.open = c.chunk > 0
	return !c.open, nil
}

// endChunk verifies a chunk whose bytes have been read.
func (c *chunkReader) endChunk() error {
	c.open = false
	if line, err := c.readLine(); err != nil {
		return err
	} else if line != "" {
		return invalidRequest("The payload is not in the coding aws-chunked: a chunk is longer than its size.")
	}
	return c.verifyChunk()
}

func (c *chunkReader) verifyChunk() error {
	if !c.signed {
		return nil
	}
	return c.verifyPart("AWS4-HMAC-SHA256-PAYLOAD", c.want, emptyHash, hex.EncodeToString(c.hash.Sum(nil)))
}

// verifyPart verifies the signature of a chunk or of the trailers.
func (c *chunkReader) verifyPart(algorithm, signature string, hashes ...string) error {
	toSign := strings.Join(append([]string{algorithm, c.signature.Date.Format(DateFormat), c.signature.Scope(),
		c.previous}, hashes...), "\n")
	want := hex.EncodeToString(hmacSHA256(c.key, toSign))
	if subtle.ConstantTimeCompare([]byte(want), []byte(signature)) != 1 {
		return mismatch(wrongSignature)
	}
	c.previous = want
	return nil
}

// end verifies the last chunk and the trailers, and returns io.EOF when all of the payload is there.
func (c *chunkReader) end() error {
	if c.left > 0 {
		return incompleteBody()
	}
	if err := c.verifyChunk(); err != nil {
		return err
	}
	header, text, signature := http.Header{}, bytes.Buffer{}, ""
	for range maxTrailers + 3 {
		line, err := c.readLine()
		if errors.Is(err, errEnded) || err == nil && line == "" && !c.inTrailers(header, signature) {
			return c.endTrailers(header, text.Bytes(), signature)
		}
		if err != nil {
			return err
		}
		if line == "" {
			continue // between the trailers and their signature some clients leave a line
		}
		name, value, ok := strings.Cut(line, ":")
		name, value = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)
		switch {
		case !ok || !c.trailers:
			return invalidRequest("The payload is not in the coding aws-chunked: it does not end with its last chunk.")
		case name == "x-amz-trailer-signature":
			signature = value
		default:
			header.Add(name, value)
			fmt.Fprintf(&text, "%s:%s\n", name, value)
		}
	}
	return invalidRequest("The payload has more trailers than the request announces.")
}

// inTrailers reports whether more trailers must follow.
func (c *chunkReader) inTrailers(header http.Header, signature string) bool {
	return c.trailers && (len(header) < len(c.of.TrailerNames) || c.signed && signature == "")
}

// endTrailers verifies that the trailers are those that the request announces, with their signature.
func (c *chunkReader) endTrailers(header http.Header, text []byte, signature string) error {
	for _, name := range c.of.TrailerNames {
		if len(header.Values(name)) != 1 {
			return &Error{Code: "MalformedTrailerError", Status: http.StatusBadRequest,
				Message: "The request contained trailing data that was not well-formed or did not conform to our " +
					"published schema."}
		}
	}
	if len(header) != len(c.of.TrailerNames) {
		return invalidRequest("The payload has other trailers than the request announces.")
	}
	if c.signed && c.trailers {
		sum := sha256.Sum256(text)
		if err := c.verifyPart("AWS4-HMAC-SHA256-TRAILER", signature, hex.EncodeToString(sum[:])); err != nil {
			return err
		}
	}
	if _, err := c.in.ReadByte(); !errors.Is(err, io.EOF) {
		return invalidRequest("The payload is not in the coding aws-chunked: it goes on after its end.")
	}
	c.of.Trailer = header
	return io.EOF
}

// errEnded reports that there are no more lines.
var errEnded = incompleteBody()

func (c *chunkReader) readLine() (string, error) {
	var line []byte
	for {
		b, err := c.in.ReadByte()
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0:
			return "", errEnded
		case errors.Is(err, io.EOF):
			return "", incompleteBody()
		case err != nil:
			return "", err
		case b == '\n':
			return strings.TrimSuffix(string(line), "\r"), nil
		case len(line) == maxChunkLine:
			return "", invalidRequest("The payload is not in the coding aws-chunked: a line is too long.")
		}
		line = append(line, b)
	}
}

func incompleteBody() *Error {
	return &Error{Code: "IncompleteBody", Status: http.StatusBadRequest,
		Message: "You did not provide the number of bytes specified by the Content-Length HTTP header."}
}

func invalidRequest(message string) *Error {
	return &Error{Code: "InvalidRequest", Message: message, Status: http.StatusBadRequest}
}
