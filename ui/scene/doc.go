// Package scene is what a picture is made from: the time that is shown, the threads, figures and findings of that time,
// what is selected, and how the screen is shared out. Views read the scene. A Host changes it for them.
package scene
