// Figures and cards follow JupyterLab's theme, which is the page's here.
const root = document.documentElement;
const follow = () => {
  root.dataset.jpThemeLight = String(root.dataset.theme !== "dark");
};
follow();
new MutationObserver(follow).observe(root, { attributeFilter: ["data-theme"] });

// The same page in the other language: English is the site, Chinese its folder zh_CN.
document.addEventListener("DOMContentLoaded", () => {
  const chinese = root.lang.startsWith("zh");
  const top = new URL(root.dataset.content_root, location.href).href;
  const page = location.href.split(/[?#]/)[0].slice(top.length) || "index.html";
  const link = document.createElement("a");
  link.className = "btn btn-sm nav-link oplab-language";
  [link.textContent, link.lang] = chinese ? ["English", "en"] : ["中文", "zh-CN"];
  link.hreflang = link.lang;
  link.href = (chinese ? new URL("..", top).href : `${top}zh_CN/`) + page;
  document.querySelector(".article-header-buttons")?.prepend(link);
});

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
