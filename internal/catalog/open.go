package catalog

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/record"
)

//go:embed all:addons
var embedded embed.FS

// Catalog is the entries of EKS and of the user. Its methods may be called at once by many.
type Catalog struct {
	options Options
	eks     map[string]Addon

	mu     sync.Mutex
	own    map[string]Addon
	seen   map[string]string // what each of the user's directories was like when it was read
	sorted []Addon           // all
}

// Open reads EKS's entries, and the user's that are there now. A broken entry of the user's is no error: it is logged
// and left out until it is mended.
func Open(o Options) (*Catalog, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	c := &Catalog{options: o, eks: map[string]Addon{}, own: map[string]Addon{}, seen: map[string]string{}}
	dirs, err := fs.ReadDir(embedded, "addons")
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		files, err := fs.Sub(embedded, "addons/"+dir.Name())
		if err != nil {
			return nil, err
		}
		a, err := readAddon(files, dir.Name(), false, o.Data)
		if err != nil {
			return nil, err
		}
		c.eks[a.Name] = a
	}
	c.sortAddons()
	c.refresh()
	return c, nil
}

// Addons returns all add-ons, sorted by name.
func (c *Catalog) Addons() []Addon {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refresh()
	return slices.Clone(c.sorted)
}

// Addon returns the add-on of that name.
func (c *Catalog) Addon(name string) (Addon, bool) {
	if a, found := c.eks[name]; found {
		return a, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refresh()
	a, found := c.own[name]
	return a, found
}

func (c *Catalog) sortAddons() {
	all := maps.Clone(c.eks)
	maps.Copy(all, c.own)
	c.sorted = c.sorted[:0:0]
	for _, name := range slices.Sorted(maps.Keys(all)) {
		c.sorted = append(c.sorted, all[name])
	}
}

// refresh reads those of the user's directories that have changed since they were read. Its cost is a look at each of
// their files.
func (c *Catalog) refresh() {
	if c.options.Dir == "" {
		return
	}
	dirs, err := os.ReadDir(c.options.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		if c.seen[""] != err.Error() {
			c.options.Log.Warn("private add-ons cannot be read", "dir", c.options.Dir, "error", err)
		}
		c.seen[""] = err.Error()
		return
	}
	now := map[string]string{}
	for _, dir := range dirs {
		path := filepath.Join(c.options.Dir, dir.Name())
		if info, err := os.Stat(path); err != nil || !info.IsDir() || strings.HasPrefix(dir.Name(), ".") {
			continue
		}
		now[dir.Name()] = dirFingerprint(path)
	}
	if maps.Equal(now, c.seen) {
		return
	}
	own := map[string]Addon{}
	from := map[string]string{} // directories, by the names of their add-ons
	for _, dir := range slices.Sorted(maps.Keys(now)) {
		a, err := c.readOwn(dir)
		if err == nil && from[a.Name] != "" {
			err = fmt.Errorf("%s/%s: name: %s is that of the add-on in %s", dir, addonFile, a.Name, from[a.Name])
		}
		if err != nil {
			if now[dir] != c.seen[dir] {
				c.options.Log.Warn("a private add-on is left out until it is mended", "dir",
					filepath.Join(c.options.Dir, dir), "error", err)
			}
			continue
		}
		from[a.Name], own[a.Name] = dir, a
		if now[dir] != c.seen[dir] {
			c.options.Log.Info("a private add-on was read", "name", a.Name, "versions", len(a.Versions))
		}
	}
	c.seen, c.own = now, own
	c.sortAddons()
}

// dirFingerprint returns a fingerprint of a directory: the names, sizes and times of its files.
func dirFingerprint(dir string) string {
	var b strings.Builder
	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			fmt.Fprintln(&b, path, err)
			return nil
		}
		if info, err := os.Stat(path); err == nil {
			fmt.Fprintln(&b, path, info.Size(), info.ModTime().UnixNano())
		}
		return nil
	})
	return b.String()
}

// readOwn reads one of the user's, and renders it once, for what is wrong with it is better said now than at the first
// cluster.
func (c *Catalog) readOwn(dir string) (Addon, error) {
	root, err := os.OpenRoot(filepath.Join(c.options.Dir, dir))
	if err != nil {
		return Addon{}, err
	}
	defer root.Close()
	a, err := readAddon(root.FS(), dir, true, c.options.Data)
	if err != nil {
		return Addon{}, err
	}
	if _, taken := c.eks[a.Name]; taken {
		return Addon{}, fmt.Errorf("%s/%s: name: %s is one of EKS's add-ons", dir, addonFile, a.Name)
	}
	for i := range a.Versions {
		v := a.Versions[i]
		trial := *v.source
		trial.data = func(Build, string) ([]byte, error) { return nil, nil }
		v.source = &trial
		for _, minor := range v.Compatibilities {
			if _, err := v.renderUnchecked(exampleOptions(minor.Minor), nil); err != nil && !v.RequiresConfiguration {
				return Addon{}, fmt.Errorf("version %s: %w", v.Version, err)
			}
		}
	}
	return a, nil
}

// exampleOptions returns the options of a cluster like any.
func exampleOptions(minor string) RenderOptions {
	return RenderOptions{
		Cluster: record.Cluster{
			Name: "example", ID: "0123456789ABCDEF0123456789ABCDEF", Account: "111122223333", Region: "eu-west-1",
			Version: minor, VPCID: "vpc-0123456789abcdef0",
			IPFamily: ekstypes.IpFamilyIpv4, ServiceIPv4CIDR: "10.100.0.0/16",
		},
		Endpoint: "https://0123456789ABCDEF0123456789ABCDEF.gr7.eu-west-1.eks.amazonaws.com", Minor: minor,
	}
}
