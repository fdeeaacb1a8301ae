// Package cloudinit is the part of cloud-init that EC2 users rely on: it reads the instance's user data and runs it
// once.
//
// User data are shell scripts, cloud-config documents, boothooks, or MIME multipart archives of such, each of them
// compressed or not. What of cloud-init is not here says so in the log instead of being passed over.
//
// Its three programs are units as on Amazon Linux: "local" waits for the network, "init" applies what has to be there
// before anything runs, "final" runs the scripts. https://cloudinit.readthedocs.io/en/latest/explanation/format.html
package cloudinit

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"net/textproto"
	"strings"
)

// Media types of parts.
const (
	ShellScript = "text/x-shellscript"
	CloudConfig = "text/cloud-config"
	Boothook    = "text/cloud-boothook"
	NodeConfig  = "application/node.eks.aws" // nodeadm reads these
)

// Part is one document of the user data.
type Part struct {
	Type     string // a media type
	Filename string // as the archive names it, or "part-001" and so on
	Content  []byte
}

// maxUserData is the maximum size of decompressed user data in bytes: of each document, and of all parts together.
const maxUserData = 10 << 20

// maxParts is the maximum number of parts in a MIME archive, nested ones included.
const maxParts = 1000

// levels is the limit of everything that is decoded on the way to the parts, as a multiple of the limit of one
// document: archives are in archives.
const levels = 8

// Parse takes user data apart. Parts that cannot be used are in the result with their types; whoever runs them says so.
func Parse(data []byte) ([]Part, error) { return ParseWithin(data, maxUserData) }

// ParseWithin is like [Parse], with a limit, in bytes, of each document and of all parts together.
func ParseWithin(data []byte, most int) ([]Part, error) {
	p := parser{most: most, left: levels * most}
	data, err := p.decode(data)
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, nil
	}
	if err := p.parsePart(data, "", "", 0); err != nil {
		return nil, err
	}
	for i := range p.parts {
		if p.parts[i].Filename == "" {
			p.parts[i].Filename = fmt.Sprintf("part-%03d", i+1)
		}
	}
	return p.parts, nil
}

// parser takes an archive apart, and the archives in it.
type parser struct {
	parts []Part
	size  int // of what the parts hold
	most  int // bytes of a document, and of all parts
	left  int // bytes that may still be decoded
}

// charge counts bytes that were decoded, whether a part has them or not.
func (p *parser) charge(n int) error {
	if p.left -= n; p.left < 0 {
		return fmt.Errorf("the archives of the user data are more than %d KiB", levels*p.most>>10)
	}
	return nil
}

func (p *parser) decode(data []byte) ([]byte, error) {
	plain, err := DecodeWithin(data, p.most)
	if err == nil {
		err = p.charge(len(plain))
	}
	return plain, err
}

// addPart appends a part. The parts together are bounded like one document: otherwise an archive of a few kilobytes
// with many parts, each of which is compressed a thousandfold, would fill the memory of whoever reads it.
func (p *parser) addPart(part Part) error {
	if p.size += len(part.Content); p.size > p.most {
		return fmt.Errorf("the parts of the user data are more than %d MiB", p.most>>20)
	}
	if len(p.parts) == maxParts {
		return fmt.Errorf("the user data has more than %d parts", maxParts)
	}
	p.parts = append(p.parts, part)
	return nil
}

// Decode undoes base64 and gzip of a document, if it is so.
func Decode(data []byte) ([]byte, error) { return DecodeWithin(data, maxUserData) }

// DecodeWithin is like [Decode], for a document that decompresses to most bytes at most.
func DecodeWithin(data []byte, most int) ([]byte, error) {
	compact := bytes.Join(bytes.Fields(data), nil)
	if len(compact) > 0 && len(compact)%4 == 0 {
		if plain, err := base64.StdEncoding.DecodeString(string(compact)); err == nil {
			data = plain
		}
	}
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data, nil
	}
	plain, err := decompress(data, most)
	if err != nil {
		return nil, fmt.Errorf("decompress user data: %w", err)
	}
	return plain, nil
}

// decompress undoes gzip, up to so many bytes.
func decompress(data []byte, most int) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err != nil {
		return nil, err
	}
	if len(plain) > most {
		return nil, fmt.Errorf("it is more than %d MiB", most>>20)
	}
	return plain, nil
}

func (p *parser) parsePart(data []byte, declared, filename string, depth int) error {
	if depth > 5 {
		return fmt.Errorf("MIME archives are nested more than 5 deep")
	}
	kind, params := declared, map[string]string{}
	if declared != "" {
		var err error
		if kind, params, err = mime.ParseMediaType(declared); err != nil {
			return fmt.Errorf("Content-Type %q of a part: %w", declared, err)
		}
	}
	body := data
	if declared == "" || kind == "text/plain" || kind == "application/octet-stream" || kind == "application/x-gzip" ||
		kind == "application/gzip" {
		var err error
		if body, err = p.decode(data); err != nil {
			return err
		}
		if sniffed := detectType(body); sniffed != "" {
			kind = sniffed
		}
		if message, err := mail.ReadMessage(bytes.NewReader(body)); err == nil && hasMIMEHeader(message.Header) {
			content, err := io.ReadAll(message.Body)
			if err != nil {
				return err
			}
			return p.parsePart(content, message.Header.Get("Content-Type"), filename, depth+1)
		}
	}
	if !strings.HasPrefix(kind, "multipart/") {
		return p.addPart(Part{kind, filename, body})
	}
	if params["boundary"] == "" {
		return fmt.Errorf("the MIME archive has no boundary in its Content-Type: %s", declared)
	}
	r := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for count := 0; ; count++ {
		part, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			if count == 0 {
				return fmt.Errorf("the MIME archive has no part with the boundary %q", params["boundary"])
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the MIME archive after part %d: %w", count, err)
		}
		content, err := p.decodeTransfer(part)
		if err == nil {
			err = p.charge(len(content))
		}
		if err != nil {
			return fmt.Errorf("part %d of the MIME archive: %w", count+1, err)
		}
		declared := part.Header.Get("Content-Type")
		if declared == "" {
			declared = "text/plain"
		}
		if err := p.parsePart(content, declared, part.FileName(), depth+1); err != nil {
			return err
		}
	}
}

func hasMIMEHeader(h mail.Header) bool {
	return h.Get("Mime-Version") != "" || strings.HasPrefix(strings.ToLower(h.Get("Content-Type")), "multipart/")
}

func (p *parser) decodeTransfer(part *multipart.Part) ([]byte, error) {
	var r io.Reader = part
	switch strings.ToLower(textproto.MIMEHeader(part.Header).Get("Content-Transfer-Encoding")) {
	case "base64":
		r = base64.NewDecoder(base64.StdEncoding, part)
	case "quoted-printable":
		r = quotedprintable.NewReader(part)
	}
	return io.ReadAll(io.LimitReader(r, int64(p.most)))
}

// detectType returns the type that a document's first line declares, "" when it declares none.
func detectType(data []byte) string {
	first, _, _ := bytes.Cut(data, []byte("\n"))
	line := strings.TrimSpace(string(first))
	for prefix, kind := range map[string]string{
		"#!": ShellScript, "#cloud-config-archive": "text/cloud-config-archive", "#cloud-boothook": Boothook,
		"#include":      "text/x-include-url",
		"#include-once": "text/x-include-once-url", "#part-handler": "text/part-handler",
		"## template: jinja": "text/jinja2", "#cloud-config-jsonp": "text/cloud-config-jsonp",
	} {
		if strings.HasPrefix(line, prefix) {
			return kind
		}
	}
	if line == "#cloud-config" || strings.HasPrefix(line, "#cloud-config ") {
		return CloudConfig
	}
	if strings.HasPrefix(line, "apiVersion: node.eks.aws/") || bytes.Contains(data, []byte("node.eks.aws/v1")) &&
		bytes.Contains(data, []byte("NodeConfig")) {
		return NodeConfig
	}
	return ""
}
