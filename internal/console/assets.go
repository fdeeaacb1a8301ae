package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

// dist is what "make console" has built of console/. Files that compress well are there as gzip alone. "make
// check-console" builds it anew and compares.
//
//go:embed all:dist
var dist embed.FS

// immutable begins the names of files that have the hash of their content in their name.
const immutable = "assets/"

// types are the media types of the files of the page, whatever this host knows of them.
var types = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
	".txt": "text/plain; charset=utf-8", ".woff2": "font/woff2", ".png": "image/png", ".wasm": "application/wasm",
}

// indexIn returns the page, which tells the region that a sign-in begins in.
func indexIn(region string) []byte {
	page, err := dist.ReadFile("dist/index.html")
	if err != nil {
		panic(err) // it is part of this program
	}
	const name = `name="coracle-region" content="`
	return bytes.Replace(page, []byte(name+"us-east-1"), []byte(name+html.EscapeString(region)), 1)
}

// serveFile serves a file of the page, and the page itself under the address of each of its views.
func (c *Console) serveFile(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "The console is read with GET.", http.StatusMethodNotAllowed)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, Prefix)
	content, compressed, ok := find(name)
	switch {
	case ok:
		serveContent(w, r, name, content, compressed)
	case strings.HasPrefix(name, immutable):
		http.Error(w, "The console has no such file: it may be one of another version. Reload the page.",
			http.StatusNotFound)
	default:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(c.index))
	}
}

// find returns a file that browsers ask for by name.
func find(name string) (content []byte, compressed, ok bool) {
	file := "dist/" + name
	if !fs.ValidPath(file) || types[path.Ext(name)] == "" {
		return nil, false, false
	}
	if content, err := dist.ReadFile(file + ".gz"); err == nil {
		return content, true, true
	}
	content, err := dist.ReadFile(file)
	return content, false, err == nil
}

func serveContent(w http.ResponseWriter, r *http.Request, name string, content []byte, compressed bool) {
	h := w.Header()
	h.Set("Content-Type", types[path.Ext(name)])
	sum := sha256.Sum256(content)
	h.Set("Etag", `"`+hex.EncodeToString(sum[:16])+`"`)
	h.Set("Cache-Control", "no-cache")
	if strings.HasPrefix(name, immutable) {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if !compressed {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
		return
	}
	h.Set("Vary", "Accept-Encoding")
	if acceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		h.Set("Content-Length", strconv.Itoa(len(content)))
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
		return
	}
	plain, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if r.Method == http.MethodGet {
		io.Copy(w, plain) //nolint:errcheck,gosec // the browser is gone; the file is one of ours
	}
}

// acceptsGzip reports whether a client reads gzip.
func acceptsGzip(r *http.Request) bool {
	for _, line := range r.Header.Values("Accept-Encoding") {
		for each := range strings.SplitSeq(line, ",") {
			coding, quality, _ := strings.Cut(each, ";")
			if strings.TrimSpace(coding) == "gzip" {
				return !strings.HasPrefix(strings.ReplaceAll(quality, " ", ""), "q=0") || strings.Contains(quality, "0.")
			}
		}
	}
	return false
}
