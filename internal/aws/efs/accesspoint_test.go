package efs_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/efs"

	"github.com/coracle-eks/coracle/internal/aws/awstest"
	efsservice "github.com/coracle-eks/coracle/internal/aws/efs"
	"github.com/coracle-eks/coracle/internal/aws/wire"
	"github.com/coracle-eks/coracle/internal/record"
	"github.com/coracle-eks/coracle/internal/store"
	"github.com/coracle-eks/coracle/internal/store/storetest"
)

// tagSize is the size of the tags of each access point that putAccessPoints makes.
const tagSize = 8 << 10

// putAccessPoints records so many access points with long tags, with their client tokens.
func putAccessPoints(t *testing.T, s *store.Store, fileSystem string, many int) {
	t.Helper()
	for i := range many {
		a := record.AccessPoint{Account: account, Region: region, ID: fmt.Sprintf("fsap-%d", i), FileSystemID: fileSystem,
			ClientToken: fmt.Sprint(i), Path: "/", Tags: map[string]string{"long": strings.Repeat("x", tagSize)}}
		if err := s.Txn(t.Context(), record.AccessPoints(s).CreateOp(a.Key(), a), record.FileSystemTokens(s).CreateOp(
			record.FileSystemTokenKey(account, region, "fsap-", a.ClientToken), record.FileSystemToken{ResourceID: a.ID},
		)); err != nil {
			t.Fatal(err)
		}
	}
}

// To make one more access point, those that a file system has are not read: they may have long tags.
func TestAccessPointsAreCountedAndNotRead(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	id := w.fileSystem()
	putAccessPoints(t, w.Store, id, 20)
	var read int64
	ctx := store.Metered(t.Context(), func(bytes int64) error { read += bytes; return nil })
	ctx = wire.NewContext((&http.Request{}).WithContext(ctx), wire.Caller{Account: account}, region, w.Identity,
		time.Now())
	awstest.Must[*efs.CreateAccessPointOutput](t)(w.service.CreateAccessPoint(ctx,
		&efs.CreateAccessPointInput{FileSystemId: &id, ClientToken: aws.String("one more")}))
	if read == 0 || read >= tagSize {
		t.Errorf("%d bytes were read for one more access point", read)
	}
}

// The access points of a file system are deleted with it, a part at a time.
func TestAccessPointsOfADeletedFileSystem(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	f := record.FileSystem{Account: account, Region: region, ID: "fs-1", CreationToken: "f", Deleted: time.Now()}
	if _, err := record.FileSystems(s).Create(t.Context(), f.Key(), f); err != nil {
		t.Fatal(err)
	}
	putAccessPoints(t, s, f.ID, 60)
	var most int64
	ctx := store.Metered(t.Context(), func(bytes int64) error { most = max(most, bytes); return nil })
	life := efsservice.NewLifecycle(efsservice.New(efsservice.Options{Store: s}))
	if err := life.FinishFileSystem(ctx, f.Key()); err != nil {
		t.Fatal(err)
	}
	if most > 60*tagSize {
		t.Errorf("%d bytes were read at once", most)
	}
	if _, err := record.FileSystems(s).Get(t.Context(), f.Key()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the file system: %v", err)
	}
	if points, tokens := record.AccessPoints(s).Count(""), record.FileSystemTokens(s).Count(""); points+tokens > 0 {
		t.Errorf("there are %d access points and %d tokens left", points, tokens)
	}
}
