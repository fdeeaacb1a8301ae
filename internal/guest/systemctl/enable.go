package systemctl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/coracle-eks/coracle/internal/guest/initd"
	"github.com/coracle-eks/coracle/internal/guest/unit"
)

// install runs enable and the like: it creates or removes links in the first directory of the unit path.
func (c Command) install(verb string, names []string, o options) int {
	dir, code := c.unitPath()[0], 0
	for _, name := range names {
		if err := c.installOne(verb, dir, name); err != nil {
			fmt.Fprintln(c.Stderr, err)
			code = 1
		}
	}
	if code != 0 {
		return code
	}
	// Without an init (while an image is made) the links are all there is to do.
	if _, err := initd.Call(c.Run, initd.Request{Verb: "daemon-reload"}); err != nil && o.now {
		fmt.Fprintln(c.Stderr, err)
		return 1
	}
	if o.now {
		return c.controlUnits(map[string]string{"enable": "start", "reenable": "start", "disable": "stop",
			"mask": "stop"}[verb], names, o)
	}
	return 0
}

func (c Command) installOne(verb, dir, name string) error {
	if verb == "mask" {
		path := filepath.Join(dir, name)
		if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink == 0 {
			return fmt.Errorf("Failed to mask unit: File %s already exists.", path)
		}
		_ = os.Remove(path)
		if err := os.Symlink("/dev/null", path); err != nil {
			return err
		}
		fmt.Fprintf(c.Stderr, "Created symlink %s → /dev/null.\n", path)
		return nil
	}
	if verb == "unmask" {
		path := filepath.Join(dir, name)
		if target, err := os.Readlink(path); err == nil && target == "/dev/null" {
			fmt.Fprintf(c.Stderr, "Removed %s.\n", path)
			return os.Remove(path)
		}
		return nil
	}
	def, err := unit.Load(c.unitPath(), name)
	if err != nil {
		var missing unit.NotFoundError
		if errors.As(err, &missing) {
			return fmt.Errorf("Failed to %s unit: Unit file %s does not exist.", verb, name)
		}
		return err
	}
	if def.Masked {
		return fmt.Errorf("Failed to %s unit: Unit file %s is masked.", verb, def.Fragment)
	}
	if verb == "disable" || verb == "reenable" {
		for _, suffix := range []string{".wants", ".requires"} {
			found, _ := filepath.Glob(filepath.Join(dir, "*"+suffix, name))
			for _, link := range found {
				if err := os.Remove(link); err != nil {
					return err
				}
				fmt.Fprintf(c.Stderr, "Removed %s.\n", link)
			}
		}
		if verb == "disable" {
			return nil
		}
	}
	linked := false
	for setting, suffix := range map[string]string{"WantedBy": ".wants", "RequiredBy": ".requires"} {
		for _, target := range def.Names("Install", setting) {
			linked = true
			link := filepath.Join(dir, target+suffix, name)
			if _, err := os.Lstat(link); err == nil {
				continue
			}
			if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
				return err
			}
			if err := os.Symlink(def.Fragment, link); err != nil {
				return err
			}
			fmt.Fprintf(c.Stderr, "Created symlink %s → %s.\n", link, def.Fragment)
		}
	}
	for _, also := range def.Names("Install", "Also") {
		if !c.enabledName(also) {
			if err := c.installOne("enable", dir, also); err != nil {
				return err
			}
		}
	}
	if !linked {
		fmt.Fprintf(c.Stderr,
			"The unit files have no installation config (WantedBy=, RequiredBy=, Also=,\nAlias= settings in the "+
				"[Install] section, and DefaultInstance= for template\nunits). This means they are not meant to be "+
				"enabled using systemctl.\n")
	}
	return nil
}

func (c Command) enabledName(name string) bool { return c.fileState(name) == "enabled" }
