package admin

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"
)

// Image is an image in the daemon's registry.
type Image struct {
	Repository string    `json:"repository"` // with the registry: "docker.io/library/nginx"
	Tags       []string  `json:"tags,omitempty"`
	Digest     string    `json:"digest"`
	Size       int64     `json:"sizeBytes"`
	Pushed     time.Time `json:"pushed"`
}

// Loaded are the references that an archive brought.
type Loaded struct {
	References []string `json:"references"`
}

// LoadImages puts the images of an archive into the registry.
func (c *Client) LoadImages(ctx context.Context, archive io.Reader) (l Loaded, err error) {
	resp, err := c.sendRequest(ctx, http.MethodPost, "/images", archive)
	if err != nil {
		return l, err
	}
	defer resp.Body.Close()
	return l, json.NewDecoder(resp.Body).Decode(&l)
}

// Images lists the images in the registry.
func (c *Client) Images(ctx context.Context) (all []Image, err error) {
	return all, c.callJSON(ctx, http.MethodGet, "/images", nil, &all)
}
