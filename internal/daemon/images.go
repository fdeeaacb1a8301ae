package daemon

import (
	"context"
	"io"

	"github.com/coracle-eks/coracle/internal/admin"
)

// LoadImages puts the images of an archive into the registry. What goes wrong is nearly always the archive's fault, or the
// lack of a repository, so the one who asks is told.
func (d *daemon) LoadImages(ctx context.Context, archive io.Reader) (admin.Loaded, error) {
	references, err := d.host.images.Load(ctx, archive, d.front.access)
	if err != nil {
		return admin.Loaded{}, &admin.Refused{Reason: err.Error()}
	}
	d.log.Info("loaded images", "images", references)
	return admin.Loaded{References: references}, nil
}

// Images lists what is in the registry.
func (d *daemon) Images(ctx context.Context) ([]admin.Image, error) {
	images, err := d.host.images.List(ctx)
	if err != nil {
		return nil, err
	}
	all := []admin.Image{}
	for _, i := range images {
		all = append(all, admin.Image{Repository: i.Repository, Tags: i.Tags, Digest: i.Digest, Size: i.Size, Pushed: i.Pushed})
	}
	return all, nil
}
