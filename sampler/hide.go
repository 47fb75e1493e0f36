package sampler

import "strings"

// HideDirectories makes Frame and Peer give file names without their directories, which can name a person, a customer or a
// machine, from now on; with false, whole paths again. All that is made from the Dictionary follows: pictures, profiles,
// recordings. Files of one name in several directories can't be told apart then.
func (d *Dictionary) HideDirectories(hide bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hide = hide
}

// HidesDirectories tells whether directories are hidden.
func (d *Dictionary) HidesDirectories() bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.hide
}

// withoutDirectories returns the file's name in a path as Ruby writes it: also in "<internal:/usr/lib/…/x.rb>" and
// "(eval at /srv/app/x.rb:3)".
func withoutDirectories(path string) string {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return path
	}
	for _, prefix := range []string{"<internal:", "(eval at "} {
		if strings.HasPrefix(path, prefix) {
			return prefix + path[i+1:]
		}
	}
	return path[i+1:]
}
