package readme

import (
	"io/fs"
	"path"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	shownPicture = regexp.MustCompile(`!\[[^\]]+\]\(([^)]*\.png)\)`)
	madePicture  = regexp.MustCompile(`\.picture\("([^"]+)"\)`)
)

// Each picture of the documentation is made by a test of the browser (-images), is kept, and is shown with a text for those who
// do not see it. The inspector's page shows all of its own, and the README one beside that of the shop.
func TestPictures(t *testing.T) {
	kept, err := fs.Glob(root, "docs/images/*.png")
	require.NoError(t, err)
	var made []string
	tests, err := fs.Glob(root, "internal/browser/*_test.go")
	require.NoError(t, err)
	for _, file := range tests {
		for _, name := range madePicture.FindAllStringSubmatch(read(t, file), -1) {
			made = append(made, "docs/images/"+name[1]+".png")
		}
	}
	require.ElementsMatch(t, kept, made)
	shown := func(page string) (pictures []string) {
		for _, link := range shownPicture.FindAllStringSubmatch(read(t, page), -1) {
			pictures = append(pictures, path.Join(path.Dir(page), link[1]))
		}
		return pictures
	}
	require.Equal(t, []string{"docs/images/shop.png", "docs/images/inspector-operation.png"}, shown("README.md"))
	require.ElementsMatch(t, kept, append(shown("docs/inspector.md"), "docs/images/shop.png"))
}
