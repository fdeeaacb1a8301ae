package catalogue

// entry is what a directory of the catalogue says.
type entry struct{}

// Catalogue is the entries of EKS and of the user.
type Catalogue struct{}

// Open reads the entries.
func Open(Options) (*Catalogue, error) { return &Catalogue{}, nil }

// Addons are all of them, sorted by name.
func (c *Catalogue) Addons() []Addon { return nil }

// Addon is the one of that name.
func (c *Catalogue) Addon(name string) (Addon, bool) { return Addon{}, false }

// Version is one of its versions.
func (a Addon) Version(version string) (Version, bool) { return Version{}, false }

// Default is the version that CreateAddon takes for a Kubernetes version when asked for none.
func (a Addon) Default(minor string) (Version, bool) { return Version{}, false }

// Serves reports whether the version may be used with a Kubernetes version.
func (v Version) Serves(minor string) bool { return false }

// Check checks configurationValues, JSON or YAML; the error is a [*ConfigurationError].
func (v Version) Check(configuration string) error { return nil }

// Render gives the objects for a cluster in the order in which they are applied.
func (v Version) Render(s Site) ([]Object, error) { return nil, nil }

// Images are those that the version's pods run in a region and Kubernetes version.
func (v Version) Images(region, minor string) []Image { return nil }
