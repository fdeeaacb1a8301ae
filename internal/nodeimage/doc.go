// Package nodeimage makes the root file system that all machines have below their own: a few dozen Debian packages,
// without what only a person at the machine would read, in one archive.
//
// Nothing of a package runs while the image is made, and no root rights are needed: what maintainer scripts would do
// that matters here is in tables of package node. The packages are those that package node names, with their
// checksums. Debian's mirrors drop the versions that a later point release replaces; then the newer version is taken,
// whose checksum the signed index of the mirror says, and the manifest of the image tells so. The same packages give
// the same archive, byte by byte.
package nodeimage
