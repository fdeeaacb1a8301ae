package image

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/coracle-eks/coracle/internal/diskspace"
)

// everybody may do everything in all repositories.
type everybody struct{ nobody }

func (everybody) Allow(context.Context, Request) error { return nil }

// openOn opens a registry on a disk with as many bytes free as the returned number says.
func openOn(t *testing.T) (*Registry, *atomic.Int64) {
	t.Helper()
	r := open(t, Options{})
	free := new(atomic.Int64)
	free.Store(diskspace.Reserve + 1<<30)
	r.space.free = func(string) (int64, error) { return free.Load(), nil }
	return r, free
}

const uploadRepository = "111122223333.dkr.ecr.eu-west-1.amazonaws.com/app"

func TestUploadPartsNeedSpace(t *testing.T) {
	t.Parallel()
	r, free := openOn(t)
	id, err := r.StartUpload(t.Context(), uploadRepository)
	if err != nil {
		t.Fatal(err)
	}
	part := []byte("abcd")
	if size, added, err := r.AppendUpload(t.Context(), uploadRepository, id, 0, part); err != nil || !added ||
		size != 4 {
		t.Fatalf("with space: %d %t %v", size, added, err)
	}
	free.Store(diskspace.Reserve)
	if _, added, err := r.AppendUpload(t.Context(), uploadRepository, id, 4, part); !errors.Is(err, ErrFull) || added {
		t.Errorf("a part on a full disk: %t %v", added, err)
	}
	free.Store(diskspace.Reserve - 1)
	if _, err := r.StartUpload(t.Context(), uploadRepository); !errors.Is(err, ErrFull) {
		t.Errorf("an upload on a full disk: %v", err)
	}
	free.Store(diskspace.Reserve + 100)
	if size, added, err := r.AppendUpload(t.Context(), uploadRepository, id, 4, part); err != nil || !added ||
		size != 8 {
		t.Errorf("with space again: %d %t %v", size, added, err)
	}
	if err := r.FinishUpload(t.Context(), uploadRepository, id, Digest([]byte("abcdabcd"))); err != nil {
		t.Error(err)
	}
	if r.space.reserved != 0 {
		t.Errorf("%d bytes stay reserved", r.space.reserved)
	}
}

// TestRepositoriesOfEKSAreReadOnly: whatever the caller has found out, nobody but the daemon changes what all pull.
func TestRepositoriesOfEKSAreReadOnly(t *testing.T) {
	t.Parallel()
	r, _ := openOn(t)
	var archive bytes.Buffer
	pause := ECRHost("533267051163", "ap-east-2") + "/eks/pause"
	if err := writeLayout(&archive, map[string]v1.Image{pause + ":3.10": randomImage(t)}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Load(t.Context(), &archive, nobody{}); err != nil {
		t.Fatal(err)
	}
	before, err := r.Images(t.Context(), pause)
	if err != nil || len(before) != 1 {
		t.Fatalf("%+v, %v", before, err)
	}
	for _, name := range []string{pause, strings.ToUpper("877085696533.dkr.ecr.af-south-1.amazonaws.com") + "/eks/pause"} {
		_, start := r.StartUpload(t.Context(), name)
		_, put := r.PutManifest(t.Context(), name, "3.10", "", nil)
		for what, err := range map[string]error{
			"an upload": start, "a manifest": put, "a deleted repository": r.DeleteRepository(t.Context(), name),
			"a deleted tag":   r.DeleteTag(t.Context(), name, "3.10"),
			"a deleted image": r.DeleteImage(t.Context(), name, before[0].Digest, []string{"3.10"}),
		} {
			var refused *Refusal
			if !errors.As(err, &refused) {
				t.Errorf("%s of %s: %v", what, name, err)
			}
		}
	}
	if after, err := r.Images(t.Context(), pause); err != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("%+v became %+v, %v", before, after, err)
	}
}

func TestUnfinishedUploadsAreBounded(t *testing.T) {
	t.Parallel()
	r, _ := openOn(t)
	for i := range maxUploads {
		if _, err := r.StartUpload(t.Context(), uploadRepository+[]string{"", "/other"}[i%2]); err != nil {
			t.Fatalf("upload %d: %v", i, err)
		}
	}
	if _, err := r.StartUpload(t.Context(), uploadRepository); !errors.Is(err, ErrTooManyUploads) {
		t.Errorf("one more: %v", err)
	}
	w := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v2/"+uploadRepository+"/blobs/uploads/", nil)
	request.SetBasicAuth("AWS", "token")
	if r.Handler(everybody{}).ServeHTTP(w, request); w.Code != http.StatusTooManyRequests ||
		!strings.Contains(w.Body.String(), "unfinished layer uploads") {
		t.Errorf("one more of a client of the registry: %d %s", w.Code, w.Body)
	}
	if _, err := r.StartUpload(t.Context(), strings.Replace(uploadRepository, "1111", "4444", 1)); err != nil {
		t.Errorf("one of another account: %v", err)
	}
}

// filling is the body of an upload during which somebody else fills the disk.
type filling struct {
	io.Reader
	read, fillAt int64
	free         *atomic.Int64
}

func (f *filling) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if f.read += int64(n); f.read >= f.fillAt {
		f.free.Store(0)
	}
	return n, err
}

func TestPushesNeedSpace(t *testing.T) {
	t.Parallel()
	const size = 4 * bytesPerReservation
	for name, test := range map[string]struct {
		free   int64
		length int64 // that the client says; -1 for none
		fillAt int64
		status int
		most   int64 // bytes that are read
	}{
		"space":                    {diskspace.Reserve + 2*size, size, 2 * size, http.StatusAccepted, size},
		"space, of unknown length": {diskspace.Reserve + 2*size, -1, 2 * size, http.StatusAccepted, size},
		"no space": {diskspace.Reserve + size - 1, size, 2 * size,
			http.StatusInsufficientStorage, 0},
		"full meanwhile": {diskspace.Reserve + 2*size, size, bytesPerReservation / 2,
			http.StatusInternalServerError, bytesPerReservation},
		"full, of unknown length": {diskspace.Reserve - 1, -1, 2 * size, http.StatusInsufficientStorage, 0},
		"full meanwhile, unknown length": {diskspace.Reserve + 2*size, -1, bytesPerReservation / 2,
			http.StatusInternalServerError, bytesPerReservation},
		"longer than a layer may be long": {diskspace.Reserve + 2*size, maxLayer + 1, 2 * size,
			http.StatusRequestEntityTooLarge, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, free := openOn(t)
			send := func(method, path string, body io.Reader, length int64) *httptest.ResponseRecorder {
				request := httptest.NewRequestWithContext(t.Context(), method, path, body)
				request.SetBasicAuth("AWS", "token")
				request.ContentLength = length
				w := httptest.NewRecorder()
				r.Handler(everybody{}).ServeHTTP(w, request)
				return w
			}
			began := send(http.MethodPost, "/v2/"+uploadRepository+"/blobs/uploads/", nil, 0)
			if began.Code != http.StatusAccepted {
				t.Fatalf("%d %s", began.Code, began.Body)
			}
			free.Store(test.free)
			body := &filling{Reader: bytes.NewReader(make([]byte, size)), fillAt: test.fillAt, free: free}
			if w := send(http.MethodPatch, began.Header().Get("Location"), body, test.length); w.Code != test.status {
				t.Errorf("%d %s, want %d", w.Code, w.Body, test.status)
			}
			if body.read > test.most {
				t.Errorf("%d bytes are read, want at most %d", body.read, test.most)
			}
			if r.space.reserved != 0 {
				t.Errorf("%d bytes stay reserved", r.space.reserved)
			}
		})
	}
}
