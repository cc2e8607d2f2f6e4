// Figures and cards follow JupyterLab's theme, which is the page's here.
const root = document.documentElement;
const follow = () => {
  root.dataset.jpThemeLight = String(root.dataset.theme !== "dark");
};
follow();
new MutationObserver(follow).observe(root, { attributeFilter: ["data-theme"] });

// For the line below a result, the search fetches the page. From a disk, a browser fetches nothing: tools/site.py writes a script with the texts.
if (location.protocol === "file:") {
  let texts = null;
  window.fetch = async (address) => {
    texts ??= new Promise((resolve) => {
      const script = document.head.appendChild(document.createElement("script"));
      script.onload = () => resolve(window.oplabTexts);
      script.src = `${root.dataset.content_root}_static/texts.js`;
    });
    const text = (await texts)[address.replace(root.dataset.content_root, "")] ?? "";
    return { text: async () => `<div role="main">${text}</div>` };
  };
}
